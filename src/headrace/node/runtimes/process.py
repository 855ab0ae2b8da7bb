"""The `process` runtime: plain OS processes, held by the keeper, limited by cgroups or approximately without them.

It isolates nothing but limits, privileges and mounts: what runs here runs as a user of this machine.
"""

import asyncio
import contextlib
import hashlib
import os
import resource
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headrace.node.cgroups import amounts, directories, files, hierarchy
from headrace.node.cgroups.approximate import ApproximateGroup, Census, cpus
from headrace.node.cgroups.group import Group, Meter
from headrace.node.cgroups.hierarchy import Hierarchies
from headrace.node.cgroups.parents import Parents
from headrace.node.cgroups.tree import Tree, Unavailable, plant
from headrace.node.keeper import identity
from headrace.node.keeper.client import KeeperClient, KeeperRefused
from headrace.node.keeper.launch import ensure_keeper
from headrace.node.keeper.members import in_groups, kill_all
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

KILL_LOOKS = 100
KILL_LOOK_SECONDS = 0.02
T = TypeVar("T")


class ProcessRuntime:
    """Use `open`. Several may share a data directory one after another; the containers stay the keeper's."""

    def __init__(self, keeper: KeeperClient, tree: Tree | None, detail: str, parents: Parents) -> None:
        self._keeper, self._tree, self._detail, self._parents = keeper, tree, detail, parents
        self._states: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, Limits] = {}  # limits in the caller's words; the kernel keeps whole pages
        self._census = Census()
        self._cpus = sorted(os.sched_getaffinity(0))

    @classmethod
    async def open(cls, data_dir: Path, hierarchies: Hierarchies | None = None) -> "ProcessRuntime":
        """Start the keeper if it is absent, find out what can be enforced. Raises KeeperFailed."""
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # a meter keeps seven files open
        parents = Parents(data_dir / "cgroup-parents.json")
        tree: Tree | None = None
        try:
            tree = plant(hierarchies or hierarchy.find(), _instance(data_dir))
            parents.note(tree.parents)
            detail = f"cgroup {tree.version}"
        except Unavailable as unavailable:
            detail = f"{unavailable}; whole CPUs by affinity, address space of each process by rlimit"
        await ensure_keeper(data_dir)  # after the agent has found its place, in which the keeper then is too
        runtime = cls(KeeperClient(data_dir), tree, detail, parents)
        await runtime._sweep()
        return runtime

    async def close(self) -> None:
        """Let go of the keeper; containers run on."""
        await self._keeper.close()
        if self._tree is not None:
            self._parents.prune()

    async def stop_keeper(self) -> None:
        """End the keeper too. Raises KeeperRefused while containers run."""
        await self._keeper.call("stop")
        await self.close()

    def capabilities(self) -> Capabilities:
        if self._tree is None:
            return Capabilities("approximate", "approximate", self._detail, "none")
        return Capabilities("enforced", "enforced", self._detail, self._tree.version)

    # ---- containers

    async def start(self, spec: ContainerSpec) -> ContainerState:
        known = await self._keeper.call("get", {"id": spec.id})
        if known is not None:
            return self._state(known)
        group: Group | None = None
        try:
            amounts.check(spec.limits)
            if self._tree is not None:
                self._parents.note(self._tree.parents)
                group = await asyncio.to_thread(self._tree.group, spec.id)
                await asyncio.to_thread(group.create, spec.limits)
            state = await self._keeper.call("start", self._request(spec, group))
        except (KeeperRefused, ApplyFailed, OSError) as error:
            if group is not None:
                await asyncio.to_thread(group.remove)
            raise StartFailed(str(error)) from None
        self._asked[spec.id] = spec.limits
        return self._state(state)

    async def signal(self, id: str, number: int) -> None:
        try:
            await self._keeper.call("signal", {"id": id, "number": number})
        except KeeperRefused as refused:
            if refused.code != "NotFound":
                raise

    async def kill(self, id: str) -> None:
        try:
            await self._keeper.call("kill", {"id": id})
        except KeeperRefused as refused:
            if refused.code != "NotFound":
                raise
            await self._kill_unknown(self._groups().get(id, ()))

    async def remove(self, id: str) -> None:
        known = await self._keeper.call("get", {"id": id})
        await self._keeper.call("remove", {"id": id})
        self._asked.pop(id, None)
        self._states.pop(id, None)
        if self._tree is not None:
            recorded = [Path(directory) for directory in known["cgroups"]] if known else self._groups().get(id, [])
            await asyncio.to_thread(directories.remove, recorded)

    async def list(self) -> list[ContainerState]:
        states = await self._keeper.call("list")
        self._states = {state["id"]: state for state in states}
        return [self._state(state) for state in states]

    async def changes(self) -> AsyncIterator[str]:
        async for event in self._keeper.watch():
            if event is None:
                for state in await self.list():
                    yield state.id
            else:
                self._states[event["id"]] = event
                yield event["id"]

    async def strays(self, wanted: Collection[str]) -> Mapping[str, Limits]:
        """Ids that run here, known or only found as a cgroup with processes, but are not `wanted`; their limits."""
        found: dict[str, Limits] = {}
        known = await self.list()
        for state in known:
            if state.state == "running" and state.id not in wanted:
                try:
                    found[state.id] = await self.read(state.id)
                except NotRunning:
                    continue
                except Unreadable:  # it is there, however much it takes
                    found[state.id] = Limits()
        for id, paths in self._groups({*wanted, *(state.id for state in known)}).items():
            if in_groups(_texts(paths)):
                found[id] = self._limits_of(paths)
        return found

    # ---- limits

    async def apply(self, id: str, limits: Limits) -> Limits:
        state = await self._running(id)
        group, now = self._own_group(state), self._group_now(state)
        if not set(group.directories) <= set(now.directories):
            raise ApplyFailed(f"container {id} was moved to {now.directories[0]}: its limits are not ours to set")
        found = await asyncio.to_thread(_while_running, id, partial(group.apply, limits))
        self._asked[id] = limits
        return amounts.settled(limits, found, group.kept(limits))

    async def read(self, id: str) -> Limits:
        group = self._group_now(await self._running(id))
        found = _while_running(id, group.read)
        asked = self._asked.get(id)
        return found if asked is None else amounts.settled(asked, found, group.kept(asked))

    async def metered(self, id: str) -> tuple[str, Meter] | None:
        """For the sampler: namespace/pod/container and a new meter; None when it does not run."""
        try:
            state = await self._running(id)
            meter = _while_running(id, self._group_now(state).meter)
        except NotRunning:
            return None
        return f"{state['labels']['pod']}/{state['labels']['container']}", meter

    # ---- inside

    def _request(self, spec: ContainerSpec, group: Group | None) -> dict[str, Any]:
        request: dict[str, Any] = {
            "id": spec.id,
            "argv": [*spec.argv],
            "env": dict(spec.env),
            "working_dir": spec.working_dir or "/",
            "log_path": spec.log_path,
            "mounts": [
                {
                    "source": mount.source,
                    "target": mount.target,
                    "read_only": mount.read_only,
                    "flags": [*mount.flags],
                }
                for mount in spec.mounts
            ],
            "uid": spec.uid,
            "gid": spec.gid,
            "labels": {"pod_uid": spec.pod_uid, "pod": spec.pod, "container": spec.container, **spec.labels},
        }
        if group is not None:
            return {**request, "cgroups": [*group.directories]}
        chosen = cpus(spec.limits.cpu_milli, spec.id, self._cpus)
        return {**request, "address_space": spec.limits.memory_bytes, "cpus": chosen}

    def _state(self, state: dict[str, Any]) -> ContainerState:
        self._states[state["id"]] = state
        labels = state["labels"]
        return ContainerState(
            id=state["id"],
            pod_uid=labels.get("pod_uid", ""),
            container=labels.get("container", ""),
            state=state["state"],
            pid=state["pid"],
            start_ticks=state["start_ticks"],
            started_at=state["started_at"],
            finished_at=state["finished_at"] if state["state"] == "exited" else None,
            exit_code=state["exit_code"],
            signal=state["signal"],
            oom_killed=state["state"] == "exited" and state["exit_code"] == 137 and self._oom_kills(state) > 0,
        )

    def _oom_kills(self, state: Mapping[str, Any]) -> int:
        if self._tree is None or not state["cgroups"]:
            return 0
        try:
            return self._tree.at(state["cgroups"]).oom_kills()
        except FileNotFoundError:  # the machine was started anew
            return 0

    async def _running(self, id: str) -> dict[str, Any]:
        state = self._states.get(id)
        if state is None:
            state = await self._keeper.call("get", {"id": id})
        if state is None:
            raise NotRunning(f"container {id} does not exist")
        if state["state"] != "running" or not identity.runs(state["pid"], state["start_ticks"]):
            raise NotRunning(f"container {id} has exited")
        self._states[id] = state
        return state

    def _own_group(self, state: Mapping[str, Any]) -> Group:
        if self._tree is None or not state["cgroups"]:
            return ApproximateGroup(state["pid"], state["marker"], self._census, self._cpus)
        return self._tree.at(state["cgroups"])

    def _group_now(self, state: Mapping[str, Any]) -> Group:
        if self._tree is None or not state["cgroups"]:
            return self._own_group(state)
        try:
            now = self._tree.of_process(state["pid"])
        except ProcessLookupError:
            raise NotRunning(f"container {state['id']} has exited") from None
        return now

    def _groups(self, known: Collection[str] = ()) -> Mapping[str, Sequence[Path]]:
        """Directories of all groups but known ones that this node has made, here or where an agent before us was."""
        return self._tree.found(self._parents.known(), known) if self._tree is not None else {}

    def _limits_of(self, paths: Sequence[Path]) -> Limits:
        assert self._tree is not None
        try:
            return self._tree.at(paths).read()
        except (KeyError, FileNotFoundError):  # half made or half removed: nothing limits it
            return Limits()

    async def _kill_unknown(self, paths: Sequence[Path]) -> None:
        """Processes that no record speaks of; none when there are no directories."""
        if not paths:
            return
        for _ in range(KILL_LOOKS):
            if await asyncio.to_thread(kill_all, _texts(paths), -1, "", None):
                await asyncio.to_thread(directories.remove, paths)
                return
            await asyncio.sleep(KILL_LOOK_SECONDS)

    async def _sweep(self) -> None:
        """Remove groups of starts that were cut short: no record, no process. Of shrinks that were, end the trial."""
        known = {state["id"] for state in await self._keeper.call("list", {"starting": True})}
        for id, paths in self._groups().items():
            if id not in known and not in_groups(_texts(paths)):
                await asyncio.to_thread(directories.remove, paths)
            elif self._tree is not None:
                with contextlib.suppress(OSError, KeyError):  # half made, or gone meanwhile: nothing is left in it
                    await asyncio.to_thread(self._tree.end_trial, paths)


def _texts(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths]


def _instance(data_dir: Path) -> str:
    """Two headraces on one machine have their cgroups apart."""
    return hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:8]


def _while_running(id: str, call: Callable[[], T]) -> T:
    """The process may end at any moment: its files then vanish, open or not, or the kernel knows it no more."""
    try:
        return call()
    except OSError as error:
        if error.errno in files.GONE:
            raise NotRunning(f"container {id} has exited") from None
        raise Unreadable(f"container {id}: {error.filename}: {error.strerror}") from None
