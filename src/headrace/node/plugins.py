"""Finds DRA drivers as a kubelet does: each puts a registration socket into the plug-in registry directory.

A driver is known while its socket is there and somebody listens: one that was killed leaves the file. A new file under
an old name is a driver that started again.
"""

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path

import grpc
from structlog.typing import FilteringBoundLogger

from headrace.runtime.clock import Clock
from headrace.wire.generated import registration_pb2
from headrace.wire.generated.registration_pb2_grpc import RegistrationStub

LOOK_SECONDS = 1.0
CALL_SECONDS = 5.0
TYPE = "DRAPlugin"
VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
HEALTH_VERSIONS = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")


@dataclass(frozen=True, slots=True)
class Plugin:
    """`endpoint` is the path of the socket that serves the DRA API, `service` the version of it that is spoken.

    `health` is that of the service which tells how its devices are; empty if it has none.
    """

    name: str
    endpoint: str
    service: str = VERSIONS[0]
    health: str = ""


class Plugins:
    """`changed` is set whenever a driver came or went."""

    def __init__(self, directory: Path, *, clock: Clock, log: FilteringBoundLogger) -> None:
        self._directory, self._clock, self._log = directory, clock, log
        self._known: dict[Path, tuple[tuple[int, int], Plugin | None]] = {}
        self._silent: set[Path] = set()  # sockets that did not answer: asked again at each look, told once
        self._changed = asyncio.Event()

    def get(self, driver: str) -> Plugin | None:
        """The one that registered last."""
        found = [plugin for _, plugin in self._known.values() if plugin is not None and plugin.name == driver]
        return found[-1] if found else None

    def names(self) -> list[str]:
        return sorted({plugin.name for _, plugin in self._known.values() if plugin is not None})

    async def changes(self) -> None:
        """Returns after the next change."""
        await self._changed.wait()

    async def run(self) -> None:
        """Look into the directory every second, until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)  # also when somebody took it away
        seen: dict[Path, tuple[int, int]] = {}
        for path in sorted(self._directory.iterdir()):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if path.is_socket():
                seen[path] = (status.st_ino, status.st_ctime_ns)
        gone = [
            path
            for path, (identity, plugin) in self._known.items()
            if seen.get(path) != identity or (plugin is not None and not _listens(path))
        ]
        for path in gone:
            _, plugin = self._known.pop(path)
            if plugin is not None:
                self._log.info("driver left", driver=plugin.name)
        self._silent &= seen.keys()
        fresh = [path for path in seen if path not in self._known]
        if gone:
            self._tell()
        # Together: the others do not wait for one that does not answer.
        await asyncio.gather(*(self._ask(path, seen[path]) for path in fresh))

    async def _ask(self, path: Path, identity: tuple[int, int]) -> None:
        try:
            self._known[path] = (identity, await self._register(path))
        except grpc.aio.AioRpcError as failure:
            if path not in self._silent:
                self._silent.add(path)
                self._log.warning("registration failed", socket=str(path), error=failure.details())
            return
        self._silent.discard(path)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _register(self, path: Path) -> Plugin | None:
        """Ask who it is and answer whether it is accepted; None where it is not, until its socket is made anew.

        Raises AioRpcError.
        """
        async with channel_to(str(path)) as channel:
            stub = RegistrationStub(channel)  # type: ignore[no-untyped-call]  # generated code has no types
            info = await stub.GetInfo(registration_pb2.InfoRequest(), timeout=CALL_SECONDS)
            error = refusal(info.type, info.name, info.endpoint, tuple(info.supported_versions))
            status = registration_pb2.RegistrationStatus(plugin_registered=not error, error=error)
            await stub.NotifyRegistrationStatus(status, timeout=CALL_SECONDS)
        if error:
            self._log.warning("driver refused", socket=str(path), error=error)
            return None
        self._log.info("driver registered", driver=info.name, endpoint=info.endpoint)
        # As the kubelet does: the first of the driver's that we know too.
        service = next(each for each in info.supported_versions if each in VERSIONS)
        health = next((each for each in info.supported_versions if each in HEALTH_VERSIONS), "")
        return Plugin(info.name, info.endpoint, service, health)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:  # it has more callers than it takes at once
            return True
        except OSError:
            return False
    return True


def channel_to(path: str) -> grpc.aio.Channel:
    """To a unix socket, of its own: a shared one would remember for seconds that nobody listened there before."""
    return grpc.aio.insecure_channel(f"unix://{path}", options=[("grpc.use_local_subchannel_pool", 1)])


def refusal(type: str, name: str, endpoint: str, versions: tuple[str, ...]) -> str:
    """Why a plug-in is not accepted; empty if it is."""
    if type != TYPE:
        return f"type {type!r}: this agent takes plug-ins of type {TYPE}"
    if not name or not endpoint:
        return "name and endpoint must not be empty"
    if not set(versions) & set(VERSIONS):
        return f"supported_versions {', '.join(versions)}: one must be {' or '.join(VERSIONS)}"
    return ""
