"""Changing a running container's limits through Podman, and finding out what really came of it.

Podman's answer is not believed: 201 may have changed nothing, and 500 half of it. The cgroup is read before and after,
and what was before is put back when the two do not agree.
"""

import asyncio
import re
from pathlib import Path

from headrace.node.cgroups import amounts
from headrace.node.cgroups.group import Group, in_use
from headrace.node.cgroups.hierarchy import UNIFIED, Hierarchies, Version
from headrace.node.cgroups.tree import Tree
from headrace.node.cgroups.v2 import V2Group
from headrace.node.runtimes import podman_bodies as bodies
from headrace.node.runtimes.podman_socket import Podman, PodmanGone, PodmanRefused, UnsafeSocket
from headrace.node.runtimes.protocol import ApplyFailed, Limits, NotRunning

_OF_CONTAINER = re.compile(r"libpod-[0-9a-f]{64}(\.scope)?")


def group_of(hierarchies: Hierarchies, pid: int) -> Group:
    """By /proc/PID/cgroup. crun puts the processes one below the cgroup that it limits, into `container`.

    Raises ProcessLookupError, KeyError.
    """
    if hierarchies.version == "v2":
        return V2Group(limiting(hierarchies.places(pid)[UNIFIED]))
    return Tree(hierarchies, {}, "").of_process(pid)


def limiting(place: Path) -> Path:
    """The cgroup that a runtime sets limits on, from the one that its processes are in."""
    return place.parent if place.name == "container" and _OF_CONTAINER.fullmatch(place.parent.name) else place


class Enforced:
    """One running container."""

    def __init__(self, podman: Podman, name: str, group: Group, version: Version) -> None:
        self.group = group
        self._podman, self._name, self._version = podman, name, version

    async def apply(self, id: str, limits: Limits) -> Limits:
        """What was read back. Raises MemoryInUse, NotRunning, ApplyFailed: the previous limits are in force then."""
        amounts.check(limits)
        try:
            before = self.group.read()
            if limits.memory_bytes is not None:
                self._guard(limits.memory_bytes, before)
            return await self._change(limits, before)
        except (FileNotFoundError, ProcessLookupError):
            raise NotRunning(f"container {id} has exited") from None

    def _guard(self, limit: int, before: Limits) -> None:
        """cgroup v2 takes a limit below what is in use and kills; v1 refuses it. Neither is tried."""
        usage = self.group.usage(0.0).working_set_bytes
        if usage > limit and (before.memory_bytes is None or limit < before.memory_bytes):
            raise in_use(limit, usage)

    async def _change(self, limits: Limits, before: Limits) -> Limits:
        shrinks = limits.memory_bytes is not None and (
            before.memory_bytes is None or limits.memory_bytes < before.memory_bytes
        )
        if self._version == "v2" and shrinks:  # by way of memory.high, which Podman cannot do
            await asyncio.to_thread(self.group.apply, limits)
        why, answered = await self._ask(limits)
        found = self.group.read()
        if found == self.group.kept(limits) and (answered or found != before):
            return found
        why = why or f"podman answered that it did, but {found} was read back"
        usage = self.group.usage(0.0).memory_bytes
        restored = await self._restore(before)
        if limits.memory_bytes is not None and shrinks and usage > limits.memory_bytes and restored and answered:
            raise in_use(limits.memory_bytes, usage)
        after = "the previous limits are in force" if restored else "the previous limits could not be restored"
        raise ApplyFailed(f"Podman Update Failure: {why}: {after}", restored=restored, answered=answered)

    async def _ask(self, limits: Limits) -> tuple[str, bool]:
        """Why it did not work, empty when Podman says that it did; and whether Podman has answered at all."""
        try:
            body = bodies.resources(limits)
            await self._podman.call("POST", f"/containers/{self._name}/update", body=body)
        except PodmanGone as gone:
            return str(gone), False
        except (PodmanRefused, UnsafeSocket) as error:
            return str(error), True
        return "", True

    async def _restore(self, before: Limits) -> bool:
        """Through the kernel, which also works while Podman does not; a change that nothing came of needs nothing."""
        if self.group.read() == before:
            return True
        try:
            return await asyncio.to_thread(self.group.apply, before) == before
        except (ApplyFailed, OSError):
            return self.group.read() == before
