"""The agents' gRPC port: a stream opens with the rights of the moment at which it does."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import structlog

from headrace.apiserver.agents import Agents, Callers
from headrace.apiserver.identity import Identity
from headrace.apiserver.tokens import revoke_user
from headrace.wire.generated import agents_pb2 as wire
from headrace.wire.generated.agents_pb2_grpc import AgentsStub
from tests.apiserver.joined import joined
from tests.apiserver.serving import Serving


async def test_an_agent_that_says_hello_after_its_revocation_is_not_connected(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, identity = asyncio.Event(), Callers.identity

    async def told(self: Callers, context: Any, *roles: Any) -> Identity:
        found = await identity(self, context, *roles)
        judged.set()
        return found

    monkeypatch.setattr(Callers, "identity", told)
    agents = Agents(server.store, log=structlog.get_logger(), wall=server.clock)
    port = await agents.start(server.running.pki, port=0)
    cluster = await joined(server, "node-a")
    credentials = grpc.ssl_channel_credentials(
        cluster.ca_pem.encode(), cluster.key_pem.encode(), cluster.certificate_pem.encode()
    )
    say = asyncio.Event()

    async def messages() -> AsyncIterator[wire.FromAgent]:
        await say.wait()
        yield wire.FromAgent(hello=wire.Hello(node="node-a", version="1"))

    try:
        async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
            call = AgentsStub(channel).Connect(messages())  # type: ignore[no-untyped-call]
            reading = asyncio.create_task(call.read())
            async with asyncio.timeout(20):
                await judged.wait()
                await revoke_user(server.store, "system:node:node-a", server.now())
                say.set()
                with pytest.raises(grpc.aio.AioRpcError) as ended:
                    await reading
            assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert agents.streams.connected() == []
    finally:
        await agents.stop()
