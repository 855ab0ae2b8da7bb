"""The agents, as the rest of the server sees them: the gRPC port, their streams, and the NodeAgent service on these.

Mutual TLS with our authority: a caller is its client certificate, checked against revocation as over HTTP.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import lru_cache
from typing import Any

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import NODE, POD
from headrace.apiserver.agent_streams import AgentConnection, AgentRefused, AgentStreams
from headrace.apiserver.authentication import Authenticator
from headrace.apiserver.identity import NODE_PREFIX, Certificate, Identity, Role, identity_of, issue_time
from headrace.apiserver.nodes import LogOptions
from headrace.apiserver.pki import Pki
from headrace.apiserver.statuses import Failure
from headrace.ledger.pods import TERMINAL
from headrace.objects.local import LocalStore
from headrace.resize import workload
from headrace.store.protocol import NotFound, StoreError
from headrace.wire.generated import agents_pb2 as wire
from headrace.wire.generated import resize_pb2 as resize
from headrace.wire.generated.agents_pb2_grpc import AgentsServicer, add_AgentsServicer_to_server
from headrace.wire.generated.resize_pb2_grpc import NodeAgentServicer, add_NodeAgentServicer_to_server

STOP_SECONDS = 2.0
MESSAGE_BYTES = 1024 * 1024
CERTIFICATES = 256  # that callers show again and again with each call
KEEPALIVE_MILLISECONDS = 10_000  # a half-open connection is noticed in 20 s

Context = Any  # grpc.aio.ServicerContext; grpc has no types here


class Callers:
    """Tells from a call's certificate who calls, and ends calls of those who may not."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def identity(self, context: Context, *roles: Role) -> Identity:
        """Aborts with UNAUTHENTICATED or PERMISSION_DENIED."""
        try:
            identity = self._authenticator.identify(_certificate(context), "")
        except Failure as failure:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(failure))
            raise
        if identity.role not in roles:
            allowed = " or ".join(roles)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"user {identity.user!r}: must have role {allowed}")
        return identity


class AgentsService(AgentsServicer):
    def __init__(self, agents: AgentStreams, callers: Callers) -> None:
        self._agents, self._callers = agents, callers

    async def Connect(self, messages: AsyncIterator[wire.FromAgent], context: Context) -> AsyncIterator[wire.ToAgent]:
        identity = await self._callers.identity(context, "node")
        first = await anext(messages, None)
        if first is None or first.WhichOneof("message") != "hello":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be hello")
            return
        if first.hello.node != identity.node:
            said = f"hello.node {first.hello.node!r}: must be the certificate's, {identity.node!r}"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, said)
            return
        await self._callers.identity(context, "node")  # again: it said hello when it liked, maybe after its revocation
        connection = AgentConnection(identity.node, first.hello.version, self._agents.samples)
        self._agents.connect(connection)
        receiving = asyncio.create_task(connection.receive(messages), name=f"agent {identity.node}")
        try:
            async for message in connection.messages():
                yield message
        finally:
            receiving.cancel()
            self._agents.disconnect(connection)


class NodeAgentService(NodeAgentServicer):
    """Finds the node of a workload (`namespace/pod/container`) and asks its agent."""

    def __init__(self, agents: AgentStreams, callers: Callers, store: LocalStore) -> None:
        self._agents, self._callers, self._store = agents, callers, store

    async def UpdateResources(
        self, request: resize.UpdateResourcesRequest, context: Context
    ) -> resize.UpdateResourcesResponse:
        await self._callers.identity(context, "admin", "controller")
        node = await self._node(request.workload_id, context)
        async with _aborting(context):
            answer = await self._agents.update_resources(node, request)
            if answer.message:
                machine = await self._store.get(NODE, node)
                answer.message = workload.begun(workload.reason_of(answer.message), answer.message, machine)
            return answer
        raise AssertionError("an abort raises")

    async def GetResourceStatus(
        self, request: resize.GetResourceStatusRequest, context: Context
    ) -> resize.GetResourceStatusResponse:
        await self._callers.identity(context, "admin", "controller", "viewer")
        node = await self._node(request.workload_id, context)
        async with _aborting(context):
            return await self._agents.get_resource_status(node, request)
        raise AssertionError("an abort raises")

    async def _node(self, id: str, context: Context) -> str:
        parts = id.split("/")
        if len(parts) != 3:
            said = f"workload_id {id!r}: must be namespace/pod/container"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, said)
        try:
            pod = await self._store.get(POD, parts[1], parts[0])
        except NotFound:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"workload {id!r}: no such Pod")
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        if not node:
            said = f"workload {id!r}: the Pod is on no node yet"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, said)
        if (pod.get("status") or {}).get("phase") in TERMINAL:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"workload {id!r}: the Pod has ended")
        return node


@contextlib.asynccontextmanager
async def _aborting(context: Context) -> AsyncIterator[None]:
    try:
        yield
    except AgentRefused as refused:
        await context.abort(refused.code, refused.message)
    except StoreError as error:
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


class Agents:
    """Implements `headrace.apiserver.nodes.Nodes`. Before `start` and after `stop` no node can be reached."""

    def __init__(
        self,
        store: LocalStore,
        *,
        log: FilteringBoundLogger,
        wall: Callable[[], float] = time.time,
        add_services: Callable[[Any, Callers], None] = lambda server, callers: None,
        samples: Callable[[str, wire.Samples], None] = lambda node, samples: None,
    ) -> None:
        """`add_services` puts the jobs' services on the same port; `samples` takes what agents measure."""
        self.streams = AgentStreams(wall=wall, log=log, samples=samples)
        self._store, self._wall, self._add_services = store, wall, add_services
        self._server: Any = None
        self._following: asyncio.Task[None] | None = None

    def logs(self, node: str, pod_uid: str, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        return self.streams.logs(node, pod_uid, container, options)

    async def start(self, pki: Pki, host: str = "127.0.0.1", port: int = 7444) -> int:
        """Listen, and give the port; 0 takes a free one. Raises OSError when the address is taken."""
        authenticator = Authenticator(self._store, self._wall, self._revoked)
        await authenticator.load()
        callers = Callers(authenticator)
        server = self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MESSAGE_BYTES),
                ("grpc.keepalive_time_ms", KEEPALIVE_MILLISECONDS),
                ("grpc.keepalive_timeout_ms", KEEPALIVE_MILLISECONDS),
                ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MILLISECONDS // 2),
                ("grpc.so_reuseport", 0),  # a second server on the port must fail, not share it
            ]
        )
        add_AgentsServicer_to_server(AgentsService(self.streams, callers), server)  # type: ignore[no-untyped-call]
        node_agent = NodeAgentService(self.streams, callers, self._store)
        add_NodeAgentServicer_to_server(node_agent, server)  # type: ignore[no-untyped-call]
        self._add_services(server, callers)
        credentials = grpc.ssl_server_credentials(
            [(pki.key("server").read_bytes(), pki.certificate("server").read_bytes())],
            root_certificates=pki.ca_pem(),
            require_client_auth=True,
        )
        try:
            bound = server.add_secure_port(f"{_bracketed(host)}:{port}", credentials)
        except RuntimeError:
            told = "it is taken, or no address of this machine; --agents-port chooses another"
            raise OSError(f"cannot listen on {host}:{port}: {told}") from None
        await server.start()
        self._following = asyncio.create_task(authenticator.follow(), name="agents' credentials")
        return int(bound)

    async def stop(self) -> None:
        if self._following is not None:
            self._following.cancel()
        self.streams.stop()
        if self._server is not None:
            await self._server.stop(STOP_SECONDS)

    def _revoked(self, user: str) -> None:
        if user.startswith(NODE_PREFIX):
            self.streams.end_node(user.removeprefix(NODE_PREFIX))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _certificate(context: Context) -> Certificate | None:
    found = context.auth_context().get("x509_pem_cert")
    return _read_certificate(found[0]) if found else None


@lru_cache(maxsize=CERTIFICATES)
def _read_certificate(pem: bytes) -> Certificate | None:
    """What it says; whether that still holds is asked anew of each call."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(pem)
    users = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    groups = certificate.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
    if not users:
        return None
    return Certificate(
        identity_of(str(users[0].value), tuple(str(group.value) for group in groups)),
        issue_time(certificate.serial_number),
        certificate.not_valid_after_utc.timestamp(),
    )
