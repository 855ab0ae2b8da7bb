"""A machine that joined: its key, its certificate, and a cluster entry that uses them."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headrace.apiserver.tokens import create_join_token
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster
from tests.apiserver.serving import Serving

JOIN = "/headrace/v1alpha1/join"


class Machine:
    """Something with a private key of its own."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())

    def request_pem(self, name: str = "anything") -> str:
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(self.key, hashes.SHA256())
        return signed.public_bytes(Encoding.PEM).decode()

    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def stranger(server: Serving) -> Cluster:
    """Somebody who knows the authority, and shows nothing."""
    return Cluster(server.running.url, ca_pem=server.running.pki.ca_pem().decode())


async def joined(server: Serving, node: str) -> Cluster:
    """The credentials of node `node`, got by a token as an agent gets them."""
    machine = Machine()
    token = await create_join_token(server.store, node, server.running.pki.ca_hash(), now=server.now())
    async with Client(stranger(server)) as client:
        answer = await client.request("POST", JOIN, body={"node": node, "csr": machine.request_pem(), "token": token})
    return Cluster(
        server.running.url,
        ca_pem=answer["ca"],
        certificate_pem=answer["certificate"],
        key_pem=machine.key_pem(),
    )
