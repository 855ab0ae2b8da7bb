"""An agent towards a server: its certificate (by join token, renewed in time), its store over HTTP, its stream.

A renewed certificate means new connections: the agent is put together anew, and finds its containers as they are.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.client.http import Client
from headrace.node.agent import Agent, Settings
from headrace.node.certificate import Credentials, lifetime_words
from headrace.node.joining import JoinFailed, cluster, join, renew
from headrace.node.machine import Machine
from headrace.node.runtimes.protocol import Runtime
from headrace.node.samples import Outgoing
from headrace.runtime.clock import Clock
from headrace.store.kubernetes import KubernetesStore

FIELD_MANAGER = "headrace-agent"
RETRY_SECONDS = 60.0
LONGEST_SLEEP_SECONDS = 3600.0  # the wall clock may jump: it is looked at again at least this often
KEEPALIVE_MILLISECONDS = 10_000


@dataclass(frozen=True, slots=True)
class Server:
    """`url` of the API (`https://HOST:7443`), `agents` is HOST:PORT of the agents' streams."""

    url: str
    agents: str


async def ensure_joined(server: Server, node: str, credentials: Credentials, token: str) -> None:
    """Join unless that is done. Raises JoinFailed, Unreachable."""
    if credentials.exist():
        if refusal := credentials.refusal(node):
            raise JoinFailed(refusal)
        return
    if not token:
        raise JoinFailed(
            f"node {node!r} has no certificate in {credentials.directory}: "
            f"give --join a token of `headrace token create --node {node}`"
        )
    await join(server.url, token, node, credentials)


async def run(
    settings: Settings,
    machine: Machine,
    runtime: Runtime,
    server: Server,
    credentials: Credentials,
    *,
    clock: Clock,
    log: FilteringBoundLogger,
    ready: Callable[[], None] = lambda: None,
    samples: Outgoing | None = None,
) -> None:
    """Until cancelled, with a certificate that `ensure_joined` has provided. `ready` is called once all is watched."""
    while True:
        async with Client(cluster(server.url, credentials), user_agent=FIELD_MANAGER) as client:
            agent = Agent(
                settings,
                machine,
                KubernetesStore(client, field_manager=FIELD_MANAGER),
                runtime,
                clock=clock,
                log=log,
                dial=partial(channel, server.agents, credentials),
                samples=samples,
            )
            await _until_renewed(agent, settings.node, server, credentials, clock, log, ready)


async def _until_renewed(
    agent: Agent,
    node: str,
    server: Server,
    credentials: Credentials,
    clock: Clock,
    log: FilteringBoundLogger,
    ready: Callable[[], None],
) -> None:
    running = asyncio.create_task(agent.run(), name="agent")
    renewing = asyncio.create_task(_renewed(node, server, credentials, clock, log), name="certificate")
    telling = asyncio.create_task(_tell(agent, ready), name="ready")
    try:
        done, _ = await asyncio.wait({running, renewing}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (running, renewing, telling):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def _renewed(
    node: str, server: Server, credentials: Credentials, clock: Clock, log: FilteringBoundLogger
) -> None:
    """Returns when there is a fresh certificate; at most once a minute, however wrong the clock is.

    Whatever keeps it from that (a server that is away, a full disk, no process to be had) is told and tried again.
    """
    valid_until = "unknown"
    pause = RETRY_SECONDS
    while True:
        await clock.sleep(pause)
        try:
            valid_until = lifetime_words(credentials)
            if (left := credentials.renews_at() - clock.wall()) > 0:
                pause = min(left, LONGEST_SLEEP_SECONDS)
                continue
            await renew(server.url, node, credentials)
        except Exception as error:
            log.warning("certificate not renewed", valid_until=valid_until, error=str(error) or type(error).__name__)
            pause = RETRY_SECONDS
        else:
            log.info("certificate renewed", valid_until=lifetime_words(credentials))
            return


async def _tell(agent: Agent, ready: Callable[[], None]) -> None:
    await agent.ready.wait()
    ready()


def channel(target: str, credentials: Credentials) -> grpc.aio.Channel:
    """A channel with this node's certificate, which trusts only the authority it joined."""
    tls = grpc.ssl_channel_credentials(
        root_certificates=credentials.ca.read_bytes(),
        private_key=credentials.key.read_bytes(),
        certificate_chain=credentials.certificate.read_bytes(),
    )
    options = [
        ("grpc.keepalive_time_ms", KEEPALIVE_MILLISECONDS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_MILLISECONDS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),  # else a new channel inherits the old one's pause after a failure
    ]
    return grpc.aio.secure_channel(target, tls, options=options)
