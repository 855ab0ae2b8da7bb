"""How this machine becomes a node: a join token proves us to the server, and the server to us.

Format `hrjoin.ID.SECRET.CAHASH`; CAHASH is the SHA-256 of the authority's certificate, so nobody in between can answer.
"""

import asyncio
import hashlib
import ssl
import sys

from headrace.client.errors import ApiError, Unreachable
from headrace.client.http import Client
from headrace.client.kubeconfig import Cluster
from headrace.node.certificate import Credentials

JOIN, RENEW, AUTHORITY = "/headrace/v1alpha1/join", "/headrace/v1alpha1/renew", "/cacerts"
SIGNING_SECONDS = 60.0


class JoinFailed(Exception):
    """This machine did not become a node; the message says why and what to do."""


def cluster(server: str, credentials: Credentials) -> Cluster:
    """The server as seen with this node's own certificate."""
    return Cluster(
        server=server,
        ca_pem=credentials.ca.read_text(),
        certificate_pem=credentials.certificate.read_text(),
        key_pem=credentials.key.read_text(),
    )


async def join(server: str, token: str, node: str, credentials: Credentials) -> None:
    """Get this node's certificate and keep it. Safe to repeat. Raises JoinFailed, Unreachable."""
    expected = token.rpartition(".")[2]
    if not token.startswith("hrjoin.") or token.count(".") != 3 or not expected:
        raise JoinFailed("this is no join token: make one with `headrace token create --node NAME`")
    async with Client(Cluster(server, skip_verification=True)) as client:
        try:
            ca = await client.text(AUTHORITY)
        except Unreachable as away:
            where = "on an address that this machine reaches (`headrace up --host ADDRESS` there)"
            raise JoinFailed(f"{away}; is the server running, and does it listen {where}?") from None
    if authority_hash(ca) != expected:
        raise JoinFailed(
            f"the authority of {server} is not the one that made this token: check the address and the token"
        )
    body = {"node": node, "csr": await _signing_request(node, credentials), "token": token}
    async with Client(Cluster(server, ca_pem=ca)) as client:
        try:
            answer = await client.request("POST", JOIN, body=body)
        except ApiError as error:
            raise JoinFailed(f"joining {server} as {node!r}: {error}") from None
    credentials.store(str(answer["certificate"]), str(answer["ca"]))


async def renew(server: str, node: str, credentials: Credentials) -> None:
    """Exchange a certificate that still holds for a fresh one. Raises JoinFailed, Unreachable."""
    body = {"csr": await _signing_request(node, credentials)}
    async with Client(cluster(server, credentials)) as client:
        try:
            answer = await client.request("POST", RENEW, body=body)
        except ApiError as error:
            raise JoinFailed(f"renewing the certificate of {node!r}: {error}") from None
    credentials.store(str(answer["certificate"]), str(answer["ca"]))


async def _signing_request(node: str, credentials: Credentials) -> str:
    """Of a short-lived process: see `headrace.node.signing`. Raises JoinFailed."""
    process = await asyncio.create_subprocess_exec(
        # -P: nothing from the directory that somebody happens to start us in.
        *(sys.executable, "-P", "-m", "headrace.node.signing", str(credentials.key), node),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SIGNING_SECONDS):
            request, complaint = await process.communicate()
    except TimeoutError:
        raise JoinFailed(f"no certificate can be asked for {node!r}: no request in {SIGNING_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode != 0:
        lines = complaint.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise JoinFailed(f"no certificate can be asked for {node!r}: {lines[-1]}")
    return request.decode("ascii")


def authority_hash(pem: str) -> str:
    """Raises JoinFailed when the text is no certificate."""
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.strip())).hexdigest()
    except ValueError:
        raise JoinFailed("the server's answer is no certificate: is this the address of a headrace server?") from None
