"""What runs on each machine: the node agent with its runtime and sampler."""

import asyncio
import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from headrace.devices.driver.host import NAME as HOST_DRIVER
from headrace.node import connected
from headrace.node.actuator import SYNC_SECONDS
from headrace.node.agent import ABANDON_SECONDS, Settings
from headrace.node.certificate import Credentials
from headrace.node.connected import Server, ensure_joined
from headrace.node.keeper.launch import KeeperFailed
from headrace.node.runtimes.choice import Chosen, NoRuntime, forget, open_runtime, recorded
from headrace.node.runtimes.podman import PodmanRuntime
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import RuntimeUnavailable
from headrace.node.sampler import Sampler
from headrace.node.samples import Outgoing
from headrace.runtime.clock import LoopClock
from headrace.serve.foresight import driver_refusal
from headrace.serve.share import share_of_this_machine
from headrace.serve.sole import sole_agent

KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`url` of the API, `agents` is HOST:PORT of the streams. `abandon_seconds`: how long an ending Pod waits for a
    device driver that is gone.

    `cpus` and `memory_bytes`: how much of the machine headrace may hand out; None is all of it. `runtime`: process or
    podman; empty is what ran here before, else Podman when its socket answers.
    """

    data_dir: Path
    node: str
    url: str
    agents: str
    token: str = ""
    reserved: Mapping[str, str] | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    sample_seconds: float = 1.0
    sync_seconds: float = SYNC_SECONDS
    abandon_seconds: float = ABANDON_SECONDS
    runtime: str = ""
    podman_socket: Path | None = None

    @property
    def server(self) -> Server:
        return Server(self.url, self.agents)

    @property
    def credentials(self) -> Credentials:
        return Credentials(self.data_dir / "pki")


async def run_agent(settings: AgentSettings, log: FilteringBoundLogger, ready: Callable[[], None]) -> None:
    """Until cancelled; containers run on. Raises JoinFailed, Unreachable, KeeperFailed, NoRuntime, ValueError."""
    async with sole_agent(settings.data_dir):
        await _run_agent(settings, log, ready)


async def _run_agent(settings: AgentSettings, log: FilteringBoundLogger, ready: Callable[[], None]) -> None:
    machine = share_of_this_machine(settings.cpus, settings.memory_bytes, settings.reserved or {})
    if not settings.credentials.exist():
        log.info("joining", server=settings.url, node=settings.node)
    await ensure_joined(settings.server, settings.node, settings.credentials, settings.token)
    runtime = await open_runtime(settings.data_dir, settings.runtime, settings.podman_socket)
    can = runtime.capabilities()
    log.info("runtime", name=can.name, detail=can.detail)
    if long := driver_refusal(settings.data_dir, HOST_DRIVER):
        log.warning("no device driver can register here", error=long)
    samples = Outgoing()
    sampler = Sampler(samples, time.time, settings.sample_seconds, samples.measured)
    agent = Settings(
        settings.node,
        settings.data_dir,
        abandon_seconds=settings.abandon_seconds,
        sync_seconds=settings.sync_seconds,
    )
    if settings.reserved is not None:
        agent = dataclasses.replace(agent, reserved=settings.reserved)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(sampler.follow(runtime, log), name="sampler follows")
            tasks.create_task(sampler.run(), name="sampler")
            await connected.run(
                agent,
                machine,
                runtime,
                settings.server,
                settings.credentials,
                clock=LoopClock(time.time),
                log=log,
                ready=ready,
                samples=samples,
            )
    finally:
        await runtime.close()


def has_run(data_dir: Path) -> bool:
    """Whether an agent has worked in this directory since its containers were ended last."""
    return bool(recorded(data_dir)[0])


class CannotEnd(Exception):
    """What runs the containers cannot be reached, or they do not end; the message says why."""


async def end_containers(data_dir: Path, grace_seconds: float) -> int:
    """Ask every container of this data directory to end, kill what stays, end the keeper. How many there were.

    Raises CannotEnd.
    """
    try:
        return await _end_all(data_dir, await open_runtime(data_dir), grace_seconds)
    except (NoRuntime, KeeperFailed, RuntimeUnavailable) as why:
        raise CannotEnd(str(why)) from None


async def _end_all(data_dir: Path, runtime: Chosen, grace_seconds: float) -> int:
    stays = runtime.is_released if isinstance(runtime, PodmanRuntime) else lambda _: False
    running = {each.id for each in await runtime.list() if each.state == "running" and not stays(each.id)}
    for each in running:
        await runtime.signal(each, signal.SIGTERM)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace_seconds):
            await _all_ended(runtime, set(running))
    for state in await runtime.list():
        if state.state == "running" and state.id in running:
            await runtime.kill(state.id)
    try:
        async with asyncio.timeout(KILL_SECONDS):
            await _all_ended(runtime, set(running))
    except TimeoutError:
        raise CannotEnd(f"some still run {KILL_SECONDS:g} s after they were killed: look at `dmesg`") from None
    if isinstance(runtime, ProcessRuntime):
        await runtime.stop_keeper()
    else:
        await runtime.close()
    forget(data_dir)
    return len(running)


async def _all_ended(runtime: Chosen, left: set[str]) -> None:
    """Follow the runtime's changes until none of these runs."""
    left &= {each.id for each in await runtime.list() if each.state == "running"}
    if not left:
        return
    async for changed in runtime.changes():
        if changed in left and all(each.id != changed or each.state == "exited" for each in await runtime.list()):
            left.discard(changed)
        if not left:
            return
