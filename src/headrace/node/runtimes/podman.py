"""The `podman` runtime: containers of images, started through Podman's REST API, limited by their cgroups.

What is in force is read from the cgroup that /proc/PID/cgroup names, never from Podman: before 5.1 its inspect and its
statistics tell the limits of the container's creation for ever (podman#17880, podman#22322).
"""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from headrace.node.cgroups import amounts, files, hierarchy
from headrace.node.cgroups.group import Group, Meter
from headrace.node.keeper import identity
from headrace.node.runtimes import podman_bodies as bodies
from headrace.node.runtimes import podman_exec
from headrace.node.runtimes import podman_images as images
from headrace.node.runtimes.podman_adopted import Adopted
from headrace.node.runtimes.podman_limits import Enforced, NoCgroup, enforcement, group_of
from headrace.node.runtimes.podman_oom import OomWatch, memory_directory
from headrace.node.runtimes.podman_socket import (
    Podman,
    PodmanGone,
    PodmanRefused,
    UnsafeSocket,
    filters,
    most_of_service,
)
from headrace.node.runtimes.protocol import (
    ApplyFailed,
    Capabilities,
    ContainerSpec,
    ContainerState,
    Limits,
    NotRunning,
    StartFailed,
    Unreadable,
)

Rows = list[dict[str, Any]]
START_SECONDS = 60.0
RETRY_SECONDS = 0.5
KILLED = 137
EVENTS = ("start", "died", "remove", "pause", "unpause")


class PodmanRuntime:
    """Use `open`. Containers of other data directories, and those that people made, are never touched."""

    def __init__(self, podman: Podman, instance: str, told: Mapping[str, Any], adopted: Adopted) -> None:
        """`told`: Podman's own /info."""
        self._podman, self._instance, self._adopted = podman, instance, adopted
        self._version, self._enforcement = str(told["version"]["Version"]), enforcement(told.get("host") or {})
        self._hierarchies = hierarchy.find()
        self._states: dict[str, ContainerState] = {}
        self._asked: dict[str, Limits] = {}  # in the caller's words; put back when a container was restarted
        self._workloads: dict[str, str] = {}
        self._watches: dict[str, OomWatch] = {}
        self._oom: dict[str, bool] = {}  # of containers that have ended
        self._locks: dict[str, asyncio.Lock] = {}
        self._ending: set[asyncio.Task[None]] = set()  # commands inside that were given up

    @classmethod
    async def open(cls, data_dir: Path, socket: Path, call_seconds: float | None = None) -> "PodmanRuntime":
        """Raises PodmanGone when nobody answers on the socket, UnsafeSocket, PodmanRefused."""
        podman = Podman(socket) if call_seconds is None else Podman(socket, call_seconds)
        try:
            told = await podman.call("GET", "/info")
            adopted = Adopted(data_dir / "adopted.json")
            runtime = cls(podman, _instance(data_dir), told, adopted)
            await runtime._sweep()
        except BaseException:
            await podman.close()
            raise
        return runtime

    async def close(self) -> None:
        """Containers run on."""
        for task in self._ending:
            task.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        await self._podman.close()

    def capabilities(self) -> Capabilities:
        version = self._hierarchies.version
        cpu, memory, why = self._enforcement
        detail = why or f"podman {self._version} on {self._podman.path}, cgroup {version}"
        return Capabilities(cpu, memory, detail, version, "podman", self._version, images=True)

    # ---- containers

    async def start(self, spec: ContainerSpec) -> ContainerState:
        if (known := await self._known(spec)) is not None:
            return known
        try:
            amounts.check(spec.limits)
        except ApplyFailed as error:
            raise StartFailed(str(error)) from None
        if spec.adopted:
            return await self._adopt(spec)
        image = await images.ensure(self._podman, spec.image, spec.pull_policy, spec.pull_secrets)
        if spec.non_root and spec.uid is None and bodies.is_root(str(image.get("Config", {}).get("User") or "")):
            raise StartFailed("container has runAsNonRoot and image will run as root", "CreateContainerConfigError")
        await asyncio.to_thread(_make_directory, Path(spec.log_path).parent)
        name = self._name(spec.id)
        try:
            try:
                body = bodies.create(spec, image["Id"], self._instance, most_of_service(self._podman.path))
                await self._podman.call("POST", "/containers/create", body=body, seconds=START_SECONDS)
            except PodmanRefused as refused:
                raise StartFailed(str(refused), "CreateContainerError") from None
            try:
                # Made first, with its cgroup and a process that waits: the watch is there before anything can happen.
                await self._podman.call("POST", f"/containers/{name}/init", seconds=START_SECONDS)
                found = await self._podman.call("GET", f"/containers/{name}/json")
                self._watch(spec.id, int(found["State"].get("Pid") or 0))
                await self._podman.call("POST", f"/containers/{name}/start", seconds=START_SECONDS)
                found = await self._podman.call("GET", f"/containers/{name}/json")
            except PodmanRefused as refused:
                self._drop_watch(spec.id)
                await self._podman.call("DELETE", f"/containers/{name}", {"force": "true", "v": "true"})
                raise StartFailed(str(refused)) from None
        except (PodmanGone, UnsafeSocket) as error:
            raise StartFailed(str(error)) from None
        self._asked[spec.id] = spec.limits
        state = await self._inspected(spec, found)
        self._remember(state, spec.pod)
        return state

    async def signal(self, id: str, number: int) -> None:
        try:
            await self._podman.call("POST", f"/containers/{self._name(id)}/kill", {"signal": str(number)})
        except PodmanRefused:  # it has ended, or is gone
            if await self._runs_by_podman(id):
                raise

    async def kill(self, id: str) -> None:
        """The container's first process is its pid namespace's: with it the kernel kills all the others."""
        await self.signal(id, 9)
        with contextlib.suppress(PodmanRefused):  # a frozen process dies only when it is thawed
            await self._podman.call("POST", f"/containers/{self._name(id)}/unpause")

    def release(self, id: str) -> bool:
        if not self._adopted.is_released(id):
            return False
        self._adopted.drop(id)
        self._forget(id)
        return True

    def is_released(self, id: str) -> bool:
        """Whether it was here before headrace, and stays when headrace goes."""
        return self._adopted.is_released(id)

    async def remove(self, id: str) -> None:
        if self.release(id):
            return
        try:
            await self._podman.call("DELETE", f"/containers/{self._name(id)}", {"v": "true"}, seconds=START_SECONDS)
        except PodmanRefused as refused:
            if refused.status != 404:
                raise
        self._adopted.drop(id)
        self._forget(id)

    async def list(self) -> list[ContainerState]:
        """Raises PodmanGone, PodmanRefused, UnsafeSocket: nothing is known then, and containers run on."""
        known = set(self._states)  # what is started while Podman answers is not forgotten for missing in the answer
        found = []
        for row in await self._rows():
            if row["State"] in bodies.LIVE | bodies.ENDED:
                state = await self._state(row)
                self._remember(state, row["Labels"].get(bodies.POD, ""))
                found.append(state)
        for id in known - {state.id for state in found}:
            self._forget(id)
        return found

    async def changes(self) -> AsyncIterator[str]:
        while True:
            query = filters(type=["container"])  # of all: adopted ones have no label
            try:
                async with contextlib.aclosing(self._podman.lines("/events", {**query, "stream": "true"})) as events:
                    async for event in events:
                        if event is None:
                            for state in await self.list():
                                yield state.id
                        elif isinstance(event, dict) and event.get("Action") in EVENTS:
                            id = self._id_of(event["Actor"])
                            if id and event["Action"] == "start":
                                await self._put_back(id)
                            if id:
                                yield id
            except (PodmanGone, PodmanRefused, UnsafeSocket):
                pass
            await asyncio.sleep(RETRY_SECONDS)

    async def execute(self, id: str, argv: Sequence[str], output_bytes: int, seconds: float) -> tuple[int, str]:
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": [*argv], "Tty": True}
        try:
            made = await self._podman.call("POST", f"/containers/{self._name(id)}/exec", body=body)
            path = f"/exec/{made['Id']}"
            how = {"Detach": False, "Tty": True}
            try:
                output = await self._podman.beginning(f"{path}/start", how, output_bytes, seconds)
            except BaseException:  # given up, by us or by our caller: Podman goes on
                task = asyncio.create_task(self._end_command(id, path), name=f"end of a command in {id}")
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
                raise
            ended = await self._podman.call("GET", f"{path}/json")
        except PodmanRefused as error:
            raise OSError(str(error)) from None
        return int(ended["ExitCode"]), output

    # ---- limits

    async def apply(self, id: str, limits: Limits) -> Limits:
        async with self._locks.setdefault(id, asyncio.Lock()):
            state = await self._running(id)
            enforced = Enforced(self._podman, self._name(id), self._group(state), self._hierarchies.version)
            found = await enforced.apply(id, limits)
            self._asked[id] = limits
        return amounts.settled(limits, found, enforced.group.kept(limits))

    async def read(self, id: str) -> Limits:
        group = self._group(await self._running(id))
        try:
            found = group.read()
        except OSError as error:
            if error.errno in files.GONE:
                raise NotRunning(f"container {id} has exited") from None
            raise Unreadable(f"container {id}: {error.filename}: {error.strerror}") from None
        asked = self._asked.get(id)
        return found if asked is None else amounts.settled(asked, found, group.kept(asked))

    async def metered(self, id: str) -> tuple[str, Meter] | None:
        """For the sampler: namespace/pod/container and a new meter; None when it does not run."""
        try:
            state = await self._running(id)
            return self._workloads[id], self._group(state).meter()
        except (ApplyFailed, OSError, KeyError):
            return None

    # ---- inside

    def _name(self, id: str) -> str:
        return self._adopted.podman_id(id) or bodies.container_name(self._instance, id)

    def _id_of(self, actor: Mapping[str, Any]) -> str | None:
        """Of a container that an event tells of; None for other people's."""
        labels = actor["Attributes"]
        if labels.get(bodies.INSTANCE) == self._instance:
            return str(labels.get(bodies.ID, ""))
        return self._adopted.id_of(actor["ID"])

    async def _adopt(self, spec: ContainerSpec) -> ContainerState:
        try:
            found = await self._podman.call("GET", f"/containers/{spec.adopted}/json")
        except (PodmanRefused, PodmanGone, UnsafeSocket) as error:
            raise StartFailed(str(error), "CreateContainerError") from None
        if not found["State"]["Running"]:
            raise StartFailed(f"container {spec.adopted} does not run, so it is not adopted", "CreateContainerError")
        if self._adopted.id_of(found["Id"]) or (found["Config"].get("Labels") or {}).get(bodies.INSTANCE):
            raise StartFailed(f"container {spec.adopted} has a Pod already", "CreateContainerError")
        try:
            group_of(self._hierarchies, int(found["State"]["Pid"]))
        except (ProcessLookupError, KeyError, NoCgroup) as error:
            raise StartFailed(f"container {spec.adopted} is not adopted: {error}", "CreateContainerError") from None
        await asyncio.to_thread(self._adopted.put, spec, found["Id"])
        await asyncio.to_thread(_show_log, found, Path(spec.log_path))
        state = await self._inspected(spec, found)
        self._remember(state, spec.pod)
        return state

    def _is_ours(self, row: Mapping[str, Any]) -> bool:
        """By its name too: an image that was made of a container of ours (podman commit) gives its labels to others."""
        return bodies.container_name(self._instance, row["Labels"].get(bodies.ID, "")) in (row["Names"] or ())

    async def _rows(self) -> Rows:
        query = {"all": "true", **filters(label=[f"{bodies.INSTANCE}={self._instance}"])}
        rows = [row for row in await self._podman.call("GET", "/containers/json", query) if self._is_ours(row)]
        if adopted := self._adopted.podman_ids():
            query = {"all": "true", **filters(id=adopted)}
            rows += self._adopted.labelled(await self._podman.call("GET", "/containers/json", query))
        return rows

    async def _sweep(self) -> None:
        """Remove what was created but never started: the agent ended between the two."""
        for row in await self._rows():
            is_ours = self._adopted.id_of(row["Id"]) is None
            if is_ours and row["State"] not in bodies.LIVE | bodies.ENDED:
                await self._podman.call("DELETE", f"/containers/{row['Id']}", {"force": "true", "v": "true"})

    async def _known(self, spec: ContainerSpec) -> ContainerState | None:
        """The container of this id if it was ever started; one that was only created is removed. Raises StartFailed."""
        name = self._name(spec.id)
        try:
            found = await self._podman.call("GET", f"/containers/{name}/json")
            if found["State"]["Status"] in bodies.LIVE | bodies.ENDED:
                state = await self._inspected(spec, found)
                self._remember(state, spec.pod)
                return state
            if spec.id not in self._adopted:
                await self._podman.call("DELETE", f"/containers/{name}", {"force": "true", "v": "true"})
        except PodmanRefused as refused:
            if refused.status != 404:
                raise StartFailed(str(refused)) from None
        except (PodmanGone, UnsafeSocket) as error:
            raise StartFailed(str(error)) from None
        return None

    async def _runs_by_podman(self, id: str) -> bool:
        try:
            found = await self._podman.call("GET", f"/containers/{self._name(id)}/json")
        except PodmanRefused:
            return False
        return bool(found["State"]["Running"] or found["State"]["Paused"])

    async def _state(self, row: Mapping[str, Any]) -> ContainerState:
        labels = row["Labels"]
        id, live, pid = labels[bodies.ID], row["State"] in bodies.LIVE, int(row["Pid"] or 0)
        known = self._states.get(id)
        if live and known is not None and known.state == "running" and known.pid == pid:
            return known
        code = None if live else int(row["ExitCode"])
        started = known.started_at if known is not None and not live else float(row["StartedAt"])
        return ContainerState(
            id=id,
            pod_uid=labels[bodies.POD_UID],
            container=labels[bodies.CONTAINER],
            state="running" if live else "exited",
            pid=pid,
            start_ticks=_ticks(pid) if live else (known.start_ticks if known else 0),
            started_at=started,
            finished_at=None if live else max(started, float(row["ExitedAt"])),  # told in whole seconds
            exit_code=code,
            oom_killed=code == KILLED and await self._oom_killed(id),
        )

    async def _inspected(self, spec: ContainerSpec, found: Mapping[str, Any]) -> ContainerState:
        state = found["State"]
        live, pid = state["Status"] in bodies.LIVE, int(state.get("Pid") or 0)
        code = None if live else int(state["ExitCode"])
        return ContainerState(
            id=spec.id,
            pod_uid=spec.pod_uid,
            container=spec.container,
            state="running" if live else "exited",
            pid=pid,
            start_ticks=_ticks(pid) if live else 0,
            started_at=datetime.fromisoformat(state["StartedAt"]).timestamp(),
            finished_at=None if live else datetime.fromisoformat(state["FinishedAt"]).timestamp(),
            exit_code=code,
            oom_killed=code == KILLED and await self._oom_killed(spec.id),
        )

    def _remember(self, state: ContainerState, pod: str) -> None:
        before = self._states.get(state.id)
        self._states[state.id], self._workloads[state.id] = state, f"{pod}/{state.container}"
        was_restarted = before is not None and before.pid != state.pid
        if state.state == "running" and (was_restarted or state.id not in self._watches):
            self._watch(state.id, state.pid)

    def _watch(self, id: str, pid: int) -> None:
        """For kills for want of memory, from now on."""
        self._drop_watch(id)
        self._oom.pop(id, None)
        with contextlib.suppress(OSError, KeyError, NoCgroup):  # it has ended already
            directory = memory_directory(group_of(self._hierarchies, pid).directories)
            if directory is not None:
                self._watches[id] = OomWatch(directory)

    def _forget(self, id: str) -> None:
        self._drop_watch(id)
        for kept in (self._states, self._asked, self._workloads, self._oom, self._locks):
            kept.pop(id, None)

    def _drop_watch(self, id: str) -> None:
        watch = self._watches.pop(id, None)
        if watch is not None:
            watch.close()

    async def _oom_killed(self, id: str) -> bool:
        """State.OOMKilled stays false with runc on v1 although the kernel killed it."""
        if id not in self._oom:
            watch = self._watches.get(id)
            killed = watch is not None and await watch.killed()
            if not killed:
                with contextlib.suppress(PodmanRefused, PodmanGone):
                    found = await self._podman.call("GET", f"/containers/{self._name(id)}/json")
                    killed = bool(found["State"].get("OOMKilled"))
            self._oom[id] = killed
            self._drop_watch(id)
        return self._oom[id]

    async def _running(self, id: str) -> ContainerState:
        """By what is remembered while that very process runs, so that Podman is not asked each time."""
        state = self._states.get(id)
        if state is not None and state.state == "running" and identity.runs(state.pid, state.start_ticks):
            return state
        try:
            rows = [row for row in await self._rows() if row["Labels"].get(bodies.ID) == id]
        except (PodmanGone, PodmanRefused, UnsafeSocket) as error:
            raise ApplyFailed(str(error)) from None
        if not rows:
            raise NotRunning(f"container {id} does not exist")
        state = await self._state(rows[0])
        if state.state != "running" or not identity.runs(state.pid, state.start_ticks):
            raise NotRunning(f"container {id} has exited")
        self._remember(state, rows[0]["Labels"].get(bodies.POD, ""))
        return state

    def _group(self, state: ContainerState) -> Group:
        try:
            return group_of(self._hierarchies, state.pid)
        except (ProcessLookupError, KeyError):
            raise NotRunning(f"container {state.id} has exited") from None
        except NoCgroup as error:
            raise NoCgroup(f"container {state.id}: {error}") from None

    async def _end_command(self, id: str, path: str) -> None:
        with contextlib.suppress(ApplyFailed):  # the container has ended, and with it all that ran inside
            await podman_exec.end(self._podman, path, self._group(await self._running(id)).directories)

    async def _put_back(self, id: str) -> None:
        """A container that was restarted has the limits of its creation again: give it those it was to have."""
        limits = self._asked.get(id)
        if limits is not None:
            with contextlib.suppress(ApplyFailed):  # the actuator tries again and tells of it
                await self.apply(id, limits)


def _ticks(pid: int) -> int:
    found = identity.stat(pid)
    return found.start_ticks if found else 0


def _show_log(found: Mapping[str, Any], path: Path) -> None:
    """An adopted container's log is where it was; it can be read when it is written in the same format."""
    told = found["HostConfig"]["LogConfig"]
    if told.get("Type") == "k8s-file" and told.get("Path") and not path.is_symlink():
        _make_directory(path.parent)
        path.symlink_to(told["Path"])


def _make_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def _instance(data_dir: Path) -> str:
    """Two headraces with one Podman have their containers apart."""
    return hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:8]
