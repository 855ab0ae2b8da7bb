"""The agent's own client certificate: a key made here that never leaves, a certificate by join token, renewed in time.

Files in one directory: `node.key` (0600), `node.crt`, `ca.crt`. Renewed after two thirds of its life.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the files lie. What they hold may change at any time by renewal: read them when connecting."""

    directory: Path

    @property
    def key(self) -> Path:
        return self.directory / "node.key"

    @property
    def certificate(self) -> Path:
        return self.directory / "node.crt"

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    def exist(self) -> bool:
        return self.key.exists() and self.certificate.exists() and self.ca.exists()

    def node(self) -> str:
        """Whose certificate it is. Raises OSError, ValueError."""
        from cryptography import x509

        found = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        names = found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return str(names[0].value).removeprefix("system:node:") if names else ""

    def refusal(self, node: str) -> str:
        """Why this directory cannot be that node's; empty where it can, or where its files cannot be read."""
        try:
            found = self.node() if self.exist() else node
        except (OSError, ValueError):
            return ""
        if found == node:
            return ""
        return (
            f"--node-name {node}: {self.directory.parent} belongs to node {found}, and a node keeps its name; "
            f"give --node-name {found}, or another --data-dir"
        )

    def store(self, certificate: str, ca: str) -> None:
        """Keep an answer to `signing_request`. Each file is whole or as it was."""
        _write(self.ca, ca.encode(), 0o644)
        _write(self.certificate, certificate.encode(), 0o644)

    def signing_request(self, node: str) -> str:
        """A PEM request for this directory's key, which is made if there is none."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        name = x509.Name(
            [
                x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "system:nodes"),
                x509.NameAttribute(x509.NameOID.COMMON_NAME, f"system:node:{node}"),
            ]
        )
        request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(self._private_key(), hashes.SHA256())
        return request.public_bytes(_encoding()).decode("ascii")

    def renews_at(self) -> float:
        """When two thirds of the certificate's life are over: wall seconds."""
        from cryptography import x509

        found = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        begin, end = found.not_valid_before_utc, found.not_valid_after_utc
        return (begin + (end - begin) * 2 / 3).timestamp()

    def expires_at(self) -> float:
        from cryptography import x509

        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).not_valid_after_utc.timestamp()

    def _private_key(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import NoEncryption, PrivateFormat, load_pem_private_key

        if self.key.exists():
            return load_pem_private_key(self.key.read_bytes(), None)
        made = ec.generate_private_key(ec.SECP256R1())
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(self.key, made.private_bytes(_encoding(), PrivateFormat.PKCS8, NoEncryption()), 0o600)
        return made


def lifetime_words(credentials: Credentials) -> str:
    """For the log: until when the certificate holds."""
    return datetime.fromtimestamp(credentials.expires_at(), UTC).strftime("%Y-%m-%d %H:%M UTC")


def _encoding() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.PEM


def _write(path: Path, content: bytes, mode: int) -> None:
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
