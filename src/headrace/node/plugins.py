"""Finds DRA drivers as a kubelet does: each puts a registration socket into the plug-in registry directory.

A driver is known while its socket is there and somebody listens: one that was killed leaves the file. A new file under
an old name is a driver that started again. A second one of the same name is taken too and asked from then on, so that
drivers can be replaced without a pause; it is told, for it may be a mistake. Source: pkg/kubelet/cm/dra/plugin.
"""

import asyncio
import socket
from collections.abc import Callable, Collection
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
    """`warn` is called with a reason and a message, for people: a driver was refused, or is here twice."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        warn: Callable[[str, str], None] = lambda reason, message: None,
    ) -> None:
        self._directory, self._clock, self._log, self._warn = directory, clock, log, warn
        self._known: dict[Path, tuple[tuple[int, int], Plugin | None]] = {}
        self._silent: set[Path] = set()  # sockets that did not answer: asked again at each look, told once
        self._changed = asyncio.Event()

    def get(self, driver: str) -> Plugin | None:
        """The one that registered last, of those that listen if any does."""
        found = self._registered(driver)
        listening = (plugin for plugin in reversed(found) if len(found) == 1 or _listens(Path(plugin.endpoint)))
        return next(listening, found[-1] if found else None)

    def _registered(self, driver: str) -> list[Plugin]:
        return [plugin for _, plugin in self._known.values() if plugin is not None and plugin.name == driver]

    def names(self) -> list[str]:
        return sorted({plugin.name for _, plugin in self._known.values() if plugin is not None})

    async def changes(self) -> None:
        """Returns after the next change."""
        await self._changed.wait()

    async def run(self) -> None:
        """Look into the directory every second, until cancelled. What keeps us from it is told once, and passes."""
        told = ""
        while True:
            said = ""
            try:
                await self.look()
            except Exception as error:  # no descriptor is free, the disk is broken: Pods without devices go on
                said = str(error) or type(error).__name__
                if said != told:
                    self._log.warning("no look for drivers", error=said)
            told = said
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
                self._log.info("driver left", driver=plugin.name, endpoint=plugin.endpoint)
        self._silent &= seen.keys()
        if gone:
            # Whose endpoint was another's may have it now.
            self._known = {path: known for path, known in self._known.items() if known[1] is not None}
            self._tell()
        fresh = [path for path in seen if path not in self._known]
        # Together: the others do not wait for one that does not answer.
        await asyncio.gather(*(self._ask(path, seen[path]) for path in fresh))

    async def _ask(self, path: Path, identity: tuple[int, int]) -> None:
        try:
            async with channel_to(str(path)) as channel:
                stub = RegistrationStub(channel)  # type: ignore[no-untyped-call]  # generated code has no types
                info = await stub.GetInfo(registration_pb2.InfoRequest(), timeout=CALL_SECONDS)
                others = self._registered(info.name)
                error = refusal(info.type, info.name, info.endpoint, tuple(info.supported_versions), others)
                # Before it hears of it: of two at once with the same endpoint, one is refused.
                self._known[path] = (identity, None if error else _plugin(info))
                status = registration_pb2.RegistrationStatus(plugin_registered=not error, error=error)
                await stub.NotifyRegistrationStatus(status, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as failure:
            self._known.pop(path, None)
            if path not in self._silent:
                self._silent.add(path)
                self._log.warning("registration failed", socket=str(path), error=failure.details())
            return
        self._silent.discard(path)
        if error:
            self._log.warning("driver refused", socket=str(path), error=error)
            self._warn("DriverRefused", f"the driver that registered with socket {path} is not accepted: {error}")
        else:
            self._log.info("driver registered", driver=info.name, endpoint=info.endpoint)
            if others:
                message = twice(info.name, info.endpoint, [each.endpoint for each in others])
                self._log.warning("driver registered twice", driver=info.name, detail=message)
                self._warn("DriverRegisteredTwice", message)
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _plugin(info: registration_pb2.PluginInfo) -> Plugin:
    """As the kubelet does: the first of the driver's versions that we know too."""
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


def refusal(type: str, name: str, endpoint: str, versions: tuple[str, ...], others: Collection[Plugin] = ()) -> str:
    """Why a plug-in is not accepted; empty if it is. `others` of its name are registered."""
    if type != TYPE:
        return f"type {type!r}: this agent takes plug-ins of type {TYPE}"
    if not name or not endpoint:
        return "name and endpoint must not be empty"
    if not set(versions) & set(VERSIONS):
        return f"supported_versions {', '.join(versions)}: one must be {' or '.join(VERSIONS)}"
    if any(each.endpoint == endpoint for each in others):
        return f"endpoint {endpoint} is registered for driver {name} already: each plug-in must have its own"
    return ""


def twice(name: str, endpoint: str, others: Collection[str]) -> str:
    """What people should know of a driver that has registered beside others of its name (their endpoints)."""
    return (
        f"driver {name} has registered again, at {endpoint}, and is asked there from now on; "
        f"{', '.join(others)} of the same name stays registered and is asked when the new one has left. "
        "If no driver is being replaced here, two have the same name: stop one of them"
    )
