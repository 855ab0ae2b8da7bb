"""`python -m headrace.node.signing KEY NODE`: prints a node's request for a certificate; a key that is absent is made.

A process of its own, which nothing of an agent imports: what it needs would stay in the agent's memory, with 10 MB, for
a moment once in eight months.
"""

import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from headrace.node.certificate import write_whole


def signing_request(key: Path, node: str) -> str:
    """PEM. Raises OSError, and ValueError where the file holds no key."""
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(_private_key(key), hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode("ascii")


def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    if path.exists():
        found = load_pem_private_key(path.read_bytes(), None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{path}: not a key of an elliptic curve")
        return found
    made = ec.generate_private_key(ec.SECP256R1())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    return made


if __name__ == "__main__":
    print(signing_request(Path(sys.argv[1]), sys.argv[2]), end="")
