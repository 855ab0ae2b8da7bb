"""Becoming a node: one token, one name, one key, fifteen minutes."""

import hashlib
import ssl

import pytest

from headrace.api.kinds import LEASE, NODE, SECRET
from headrace.apiserver.credentials import LABEL
from headrace.apiserver.tokens import create_join_token, revoke_user
from headrace.client.errors import ApiError
from headrace.client.http import Client
from headrace.node.registration import words_of
from headrace.store.protocol import Forbidden, Unauthorized
from tests.apiserver.joined import JOIN, Machine, joined, stranger
from tests.apiserver.serving import Serving


async def token_for(server: Serving, node: str, ttl_seconds: float = 900) -> str:
    return await create_join_token(server.store, node, server.running.pki.ca_hash(), server.now(), ttl_seconds)


async def ask(server: Serving, node: str, machine: Machine, token: str) -> str:
    async with Client(stranger(server)) as client:
        answer = await client.request("POST", JOIN, body={"node": node, "csr": machine.request_pem(), "token": token})
    certificate: str = answer["certificate"]
    return certificate


async def test_a_machine_that_joined_acts_as_its_node(server: Serving) -> None:
    async with server.remote(cluster=await joined(server, "node-a")) as store:
        await store.create(NODE, {"metadata": {"name": "node-a"}})
        await store.create(LEASE, {"metadata": {"name": "node-a"}, "spec": {}}, "kube-node-lease")
        with pytest.raises(Forbidden, match=r"may only create its own Node, named .node-a."):
            await store.create(NODE, {"metadata": {"name": "node-b"}})


async def test_the_token_tells_which_authority_to_expect(server: Serving) -> None:
    token = await token_for(server, "node-a")
    async with Client(stranger(server)) as client:
        pem = await client.text("/cacerts")
    assert token.rpartition(".")[2] == hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


async def test_the_same_key_may_ask_again_and_another_may_not(server: Serving) -> None:
    token, machine = await token_for(server, "node-a"), Machine()
    first = await ask(server, "node-a", machine, token)
    assert await ask(server, "node-a", machine, token) != first
    with pytest.raises(ApiError, match="used by another machine"):
        await ask(server, "node-a", Machine(), token)


async def test_a_token_is_bound_to_its_node_and_its_time(server: Serving) -> None:
    token, machine = await token_for(server, "node-a"), Machine()
    with pytest.raises(ApiError, match="for another node than 'node-b'"):
        await ask(server, "node-b", machine, token)
    server.clock.ahead_seconds = 901
    with pytest.raises(ApiError, match="has expired"):
        await ask(server, "node-a", machine, token)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda token: token.replace("hrjoin.", "hr."), id="a bearer prefix"),
        pytest.param(
            lambda token: token[:30] + ("x" if token[30] != "x" else "y") + token[31:],
            id="one letter of the secret changed",
        ),
        pytest.param(lambda token: "hrjoin.../kube-root.x.y", id="an id that is no id"),
        pytest.param(lambda token: "", id="nothing"),
    ],
)
async def test_what_is_no_token_is_refused(server: Serving, spoil) -> None:  # type: ignore[no-untyped-def]
    token = await token_for(server, "node-a")
    with pytest.raises(ApiError) as refusal:
        await ask(server, "node-a", Machine(), spoil(token))
    assert refusal.value.code in (400, 401)


async def test_only_the_hash_of_a_token_is_stored_and_expired_ones_go(server: Serving) -> None:
    token = await token_for(server, "node-a")
    stored = await server.store.list(SECRET, "kube-system", labels=LABEL)
    assert token.split(".")[2] not in str(stored.items)
    server.clock.ahead_seconds = 1000
    await token_for(server, "node-b")
    left = await server.store.list(SECRET, "kube-system", labels=LABEL)
    assert len(left.items) == 1


async def test_a_revoked_node_is_refused_at_once_and_may_join_anew(server: Serving) -> None:
    async with server.remote(cluster=await joined(server, "node-a")) as store:
        await store.create(NODE, {"metadata": {"name": "node-a"}})
        await revoke_user(server.store, "system:node:node-a", server.now())
        with pytest.raises(Unauthorized) as refusal:
            await store.get(NODE, "node-a")
    assert "`headrace token create --node node-a`" in words_of(refusal.value, "node-a")
    server.clock.ahead_seconds = 1
    async with server.remote(cluster=await joined(server, "node-a")) as store:
        await store.get(NODE, "node-a")


async def test_a_node_renews_its_certificate_for_itself_only(server: Serving) -> None:
    async with Client(await joined(server, "node-a")) as client:
        answer = await client.request("POST", "/headrace/v1alpha1/renew", body={"csr": Machine().request_pem("other")})
    decoded = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    path = server.directory / "renewed.pem"
    path.write_text(answer["certificate"])
    subject = dict(pair[0] for pair in decoded(str(path))["subject"])
    assert subject == {"organizationName": "system:nodes", "commonName": "system:node:node-a"}
    async with server.http() as client:
        with pytest.raises(ApiError, match="must be a node"):
            await client.request("POST", "/headrace/v1alpha1/renew", body={"csr": Machine().request_pem()})


async def test_a_signing_request_must_prove_its_key(server: Serving) -> None:
    token = await token_for(server, "node-a")
    async with Client(stranger(server)) as client:
        for csr in ("nonsense", Machine().request_pem().replace("A", "B", 3)):
            with pytest.raises(ApiError, match="csr") as refusal:
                await client.request("POST", JOIN, body={"node": "node-a", "csr": csr, "token": token})
            assert refusal.value.code == 400
