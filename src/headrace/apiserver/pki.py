"""This installation's own certificate authority: made at the first start, with a server and three client certificates.

Private keys and kubeconfigs are written with mode 0600. Leaf certificates are made anew when less than a third of
their life is left; the authority itself lives ten years and is never replaced silently.
"""

import base64
import contextlib
import fcntl
import hashlib
import ipaddress
import json
import os
import secrets
import socket
import ssl
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.apiserver.addresses import addresses
from headrace.apiserver.identity import (
    ADMIN,
    ADMIN_GROUP,
    CONTROLLER,
    CONTROLLER_GROUP,
    SERIAL_RANDOM_BITS,
    VIEWER,
    VIEWER_GROUP,
)
from headrace.store.protocol import BadRequest

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_DAYS = 3650
LEAF_DAYS = 365
WILDCARDS = ("0.0.0.0", "::", "")  # to listen on all addresses
CLOCK_SLACK = timedelta(days=1)  # a clock that is behind, or set back, must not lock anybody out

CLIENTS = {
    "admin": (ADMIN, (ADMIN_GROUP,)),
    "controller": (CONTROLLER, (CONTROLLER_GROUP,)),
    "viewer": (VIEWER, (VIEWER_GROUP,)),
}


@dataclass(frozen=True, slots=True)
class Pki:
    """Where the files lie: `ca.crt`, `ca.key`, `server.crt`, `server.key`, `NAME.crt`, `NAME.key` in one directory."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    def certificate(self, name: str) -> Path:
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    def ca_pem(self) -> bytes:
        return self.ca.read_bytes()

    def ca_hash(self) -> str:
        """SHA-256 of the authority's certificate (DER), in hexadecimal: what a join token embeds."""
        return certificate_hash(self.ca_pem())

    def server_context(self) -> ssl.SSLContext:
        """TLS ≥ 1.2, our certificate, client certificates of our authority asked for but not demanded."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate("server"), self.key("server"))
        context.load_verify_locations(self.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context


def certificate_hash(pem: bytes | str) -> str:
    text = pem.decode("ascii") if isinstance(pem, bytes) else pem
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()


def ensure(directory: Path, now: float, names: Iterable[str] = ()) -> Pki:
    """The PKI in `directory`, complete and fresh: what is missing or soon to expire is made.

    `names`: further DNS names or addresses by which clients reach this server. `now` in seconds since the epoch.
    Raises RuntimeError when the authority has expired or its key is lost: clients trust no other.
    """
    pki = Pki(directory)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    at = datetime.fromtimestamp(now, UTC)
    with _alone(directory):
        if not pki.ca.exists():
            _make_authority(pki, at)
        hosts = _host_names(names)
        if not _is_fresh(pki.certificate("server"), at, hosts):
            _make_leaf(pki, "server", at, common_name="headrace", organizations=(), hosts=hosts)
        for name, (user, groups) in CLIENTS.items():
            if not _is_fresh(pki.certificate(name), at):
                _make_leaf(pki, name, at, common_name=user, organizations=groups, hosts=())
    return pki


def retire(directory: Path, revoked: Mapping[str, float]) -> None:
    """Remove the certificates of our own clients that are refused: `ensure` makes them anew, as at a first start.

    `revoked`: until when what was issued to a user is refused, in seconds since the epoch.
    """
    pki = Pki(directory)
    for name, (user, _) in CLIENTS.items():
        file = pki.certificate(name)
        if user not in revoked or not file.exists():
            continue
        told = _told(file.read_text())
        if told is None or int((told[0] + CLOCK_SLACK).timestamp()) <= revoked[user]:  # it has whole seconds
            file.unlink()


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One process at a time: what a server that was killed had begun may still be at work when the next one starts."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_complete(directory: Path, now: float, names: Iterable[str] = ()) -> bool:
    """Whether `ensure` would find everything there and fresh."""
    pki, at = Pki(directory), datetime.fromtimestamp(now, UTC)
    return (
        pki.ca.exists()
        and _is_fresh(pki.certificate("server"), at, _host_names(names))
        and all(_is_fresh(pki.certificate(name), at) for name in CLIENTS)
    )


def _host_names(extra: Iterable[str]) -> tuple[str, ...]:
    """A server that listens on all addresses is reached at each of them; certificates have no wildcard for that."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    for name in extra:
        names += addresses() if name in WILDCARDS else (name,)
    return tuple(dict.fromkeys(names))


def _is_fresh(path: Path, now: datetime, hosts: tuple[str, ...] = ()) -> bool:
    if not path.exists() or not path.with_suffix(".key").exists():
        return False
    told = _told(path.read_text())
    if told is None:
        return False
    begins, ends, named = told
    return begins <= now < ends - (ends - begins) / 3 and named >= set(hosts)


def _heading(begins: datetime, ends: datetime, hosts: tuple[str, ...]) -> bytes:
    """What a leaf's file says above the certificate, so that a start need not load a library only to see its dates."""
    return f"# valid: {begins.isoformat()} {ends.isoformat()}\n# names: {' '.join(hosts)}\n".encode()


def _told(text: str) -> tuple[datetime, datetime, set[str]] | None:
    """None for a file that was not written here: it is made anew."""
    lines = dict(line[2:].partition(": ")[::2] for line in text.splitlines() if line.startswith("# "))
    try:
        begins, ends = (datetime.fromisoformat(part) for part in lines["valid"].split())
    except (KeyError, ValueError):
        return None
    return begins, ends, set(lines.get("names", "").split())


def _make_authority(pki: Pki, now: datetime) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"headrace-ca@{int(now.timestamp())}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    # The key first: a certificate without its key would be taken for a finished authority.
    _write_key(pki.key("ca"), key)
    _write(pki.ca, _pem(built), 0o644)


def _authority(pki: Pki, now: datetime) -> tuple["x509.Certificate", "EllipticCurvePrivateKey"]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = x509.load_pem_x509_certificate(pki.ca_pem())
    if found.not_valid_after_utc <= now:
        raise RuntimeError(
            f"the authority {pki.ca} expired on {found.not_valid_after_utc:%Y-%m-%d}: move {pki.directory} away, "
            "start again, and join every node anew"
        )
    if not pki.key("ca").exists():
        raise RuntimeError(f"the authority's key {pki.key('ca')} is missing: restore it, or move {pki.directory} away")
    key = load_pem_private_key(pki.key("ca").read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    return found, key


def _make_leaf(
    pki: Pki, name: str, now: datetime, *, common_name: str, organizations: tuple[str, ...], hosts: tuple[str, ...]
) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    issued = _sign(pki, key.public_key(), now, common_name, organizations, hosts)
    pki.certificate(name).unlink(missing_ok=True)  # never a certificate beside another's key, also after a crash
    _write_key(pki.key(name), key)
    _write(pki.certificate(name), _heading(now - CLOCK_SLACK, now + timedelta(days=LEAF_DAYS), hosts) + issued, 0o644)


def sign_request(pki: Pki, request_pem: bytes, now: float, user: str, groups: tuple[str, ...]) -> bytes:
    """A client certificate (PEM) for the key of a certificate signing request; what it names itself is ignored."""
    public_key = _request_key(request_pem)
    return _sign(pki, public_key, datetime.fromtimestamp(now, UTC), user, groups, ())


def request_key_hash(request_pem: bytes) -> str:
    """SHA-256 of the requested public key: two requests of one key holder are the same joining."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = _request_key(request_pem)
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _request_key(request_pem: bytes):  # type: ignore[no-untyped-def]  # any of cryptography's public keys
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    try:
        request = x509.load_pem_x509_csr(request_pem)
        key = request.public_key()
        signed = request.is_signature_valid
    except ValueError as error:
        raise BadRequest(f"csr: not a PEM certificate signing request: {error}") from None
    if not signed:
        raise BadRequest("csr: the signature does not match the key")
    match key:
        case ec.EllipticCurvePublicKey() if key.curve.name in ("secp256r1", "secp384r1"):
            return key
        case ed25519.Ed25519PublicKey():
            return key
        case rsa.RSAPublicKey() if key.key_size >= 2048:
            return key
    raise BadRequest("csr: the key must be EC P-256 or P-384, Ed25519, or RSA of at least 2048 bits")


def _sign(  # type: ignore[no-untyped-def]  # any of cryptography's public keys
    pki: Pki, public_key, now: datetime, common_name: str, organizations: tuple[str, ...], hosts: tuple[str, ...]
) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority, key = _authority(pki, now)
    names = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, group) for group in organizations]
    names.append(x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name))
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(authority.subject)
        .public_key(public_key)
        .serial_number(int(now.timestamp() * 1000) << SERIAL_RANDOM_BITS | secrets.randbits(SERIAL_RANDOM_BITS))
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(min(now + timedelta(days=LEAF_DAYS), authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False
        )
    return _pem(builder.sign(key, hashes.SHA256()))


def _alternative(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _write_key(path: Path, key: "EllipticCurvePrivateKey") -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Whole or not at all: a torn key would lock everybody out."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def write_kubeconfig(pki: Pki, path: Path, server: str, client: str) -> None:
    """A kubeconfig with everything inside, mode 0600. `client`: admin, controller or viewer.

    In JSON, as every YAML reader takes it, and a quick one too.
    """

    def inline(file: Path) -> str:
        text = file.read_bytes()
        return base64.b64encode(text[text.index(b"-----BEGIN") :]).decode("ascii")

    user = CLIENTS[client][0]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "headrace", "cluster": {"server": server, "certificate-authority-data": inline(pki.ca)}},
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": inline(pki.certificate(client)),
                    "client-key-data": inline(pki.key(client)),
                },
            },
        ],
        "contexts": [
            {"name": "headrace", "context": {"cluster": "headrace", "user": user, "namespace": "default"}},
        ],
        "current-context": "headrace",
    }
    text = json.dumps(document, indent=2).encode() + b"\n"
    if path.exists() and path.read_bytes() == text and path.stat().st_mode & 0o777 == 0o600:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, text, 0o600)


if __name__ == "__main__":
    # `python -m headrace.apiserver.pki DIRECTORY [NAME]…`: what a first start makes, made by a process that ends, since
    # the one that serves would keep cryptography's 9 MB for ever.
    ensure(Path(sys.argv[1]), time.time(), sys.argv[2:])
