"""Rights are those of the moment at which a request is done, not of the one at which its first byte came."""

import asyncio

import pytest

from headrace.api.kinds import CONFIG_MAP, POD
from headrace.apiserver.tokens import create_bearer_token, revoke_token
from headrace.objects.local import LocalStore
from headrace.store.protocol import Deletion, NotFound
from tests.apiserver.joined import joined, stranger
from tests.apiserver.serving import Serving
from tests.apiserver.test_connection import answer, opened

BODY = b'{"metadata": {"name": "late"}}'


async def seen(server: Serving, beginning: bytes, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """The server has judged the request by its headers: it asks for the body."""
    reader, writer = streams
    writer.write(beginning)
    async with asyncio.timeout(10):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_a_body_that_comes_after_the_revocation_is_written_nowhere(server: Serving) -> None:
    token = await create_bearer_token(server.store, "ann", ("system:masters",), server.now())
    head = (
        b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\n"
        b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % (token.encode(), len(BODY))
    )
    async with opened(server, stranger(server).tls()) as streams:
        await seen(server, head, streams)
        await revoke_token(server.store, token.split(".")[1])
        assert (await answer(streams, BODY))[0] == 401
    with pytest.raises(NotFound):
        await server.store.get(CONFIG_MAP, "late", "default")


async def test_a_pod_that_has_moved_meanwhile_is_reported_by_its_new_node_only(server: Serving) -> None:
    def pod(node: str) -> dict[str, object]:
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        return {"metadata": {"name": "web-0"}, "spec": spec}

    await server.store.create(POD, pod("a"), "default")
    document = b'{"status": {"phase": "Failed"}}'
    head = (
        b"PATCH /api/v1/namespaces/default/pods/web-0/status HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n"
        b"content-type: application/merge-patch+json\r\ncontent-length: %d\r\n\r\n" % len(document)
    )
    async with opened(server, (await joined(server, "a")).tls()) as streams:
        await seen(server, head, streams)
        await server.store.delete(POD, "web-0", "default", Deletion(grace_seconds=0))
        await server.store.create(POD, pod("b"), "default")
        assert (await answer(streams, document))[0] == 403
    assert (await server.store.get(POD, "web-0", "default"))["status"]["phase"] == "Pending"


async def test_a_watch_whose_beginning_is_read_while_its_token_is_revoked_does_not_open(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await create_bearer_token(server.store, "ann", ("headrace:viewers",), server.now())
    listed = LocalStore.list_bodies

    async def slowly(self: LocalStore, *arguments: object, **options: object) -> object:
        found = await listed(self, *arguments, **options)  # type: ignore[arg-type]
        if arguments[0] == CONFIG_MAP:
            await revoke_token(server.store, token.split(".")[1])
            await asyncio.sleep(0)
        return found

    monkeypatch.setattr(LocalStore, "list_bodies", slowly)
    head = b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\n\r\n" % token.encode()
    async with opened(server, stranger(server).tls()) as streams:
        assert (await answer(streams, head))[0] == 401
