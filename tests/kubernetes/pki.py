"""The certificates of a control plane for tests: one authority, one certificate for each identity, valid for a day."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.96.0.1")


@dataclass(frozen=True)
class Authority:
    """Writes NAME.crt and NAME.key into `directory`; ca.crt is its own."""

    directory: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    def issue(self, file: str, user: str, *groups: str, server: bool = False) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if server:  # a kubelet is both
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
        built = _builder(_name(user, *groups), self.name, key.public_key())
        built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        built = built.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if server:
            names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
            names += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
            built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = built.sign(self.key, hashes.SHA256())
        (self.directory / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_key(self.directory / f"{file}.key", key)


def create(directory: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("headrace-tests-ca")
    built = _builder(name, name, key.public_key())
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = built.sign(key, hashes.SHA256())
    (directory / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    write_key(directory / "ca.key", key)
    return Authority(directory, key, name)


def load(directory: Path) -> Authority:
    """The one that `create` has left in this directory."""
    key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    certificate = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    return Authority(directory, key, certificate.subject)


def signing_key(directory: Path, name: str) -> None:
    """A bare key pair, with which service account tokens are signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_key(directory / f"{name}.key", key)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (directory / f"{name}.pub").write_bytes(public)


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))


def _name(user: str, *groups: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
