"""Changing a running container's limits through Podman, and finding out what really came of it.

Podman's answer is not believed: 201 may have changed nothing, and 500 half of it. The cgroup is read before and after,
and what was before is put back when the two do not agree.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.api.amounts import CPU, MEMORY
from headrace.node.cgroups import amounts
from headrace.node.cgroups.group import Group, in_use
from headrace.node.cgroups.hierarchy import UNIFIED, Hierarchies, Version
from headrace.node.cgroups.tree import Tree
from headrace.node.cgroups.v2 import V2Group
from headrace.node.runtimes import podman_bodies as bodies
from headrace.node.runtimes.podman_socket import Podman, PodmanGone, PodmanRefused, UnsafeSocket
from headrace.node.runtimes.protocol import ApplyFailed, Enforcement, Limits, NotRunning, Unreadable

_OF_CONTAINER = re.compile(r"libpod-[0-9a-f]{64}(\.scope)?")
_INSIDE = re.compile(r"/libpod-(payload-)?[0-9a-f]{64}\b")


class NoCgroup(Unreadable):
    """The container shares its cgroup with others: what limits or measures that would not be about the container."""


def enforcement(host: Mapping[str, Any]) -> tuple[Enforcement, Enforcement, str]:
    """Of cpu and memory, from what Podman tells of its host; and why not, where it sets no limits.

    Without root it sets those of the controllers that are delegated to its user, and on cgroup v1 none.
    """
    if not (host.get("security") or {}).get("rootless"):
        return "enforced", "enforced", ""
    if host.get("cgroupVersion") != "v2":
        return "none", "none", "rootless Podman sets no limits on cgroup v1"
    delegated = host.get("cgroupControllers") or ()
    missing = [name for name in (CPU, MEMORY) if name not in delegated]
    found: tuple[Enforcement, ...] = tuple("none" if name in missing else "enforced" for name in (CPU, MEMORY))
    why = (
        f"rootless Podman: {' and '.join(missing)} not delegated to this user "
        "(in systemd: Delegate=cpu memory for user@.service)"
    )
    return found[0], found[1], why if missing else ""


def group_of(hierarchies: Hierarchies, pid: int) -> Group:
    """By /proc/PID/cgroup. crun puts the processes one below the cgroup that it limits, into `container`.

    Raises ProcessLookupError, KeyError, NoCgroup.
    """
    group: Group
    if hierarchies.version == "v2":
        group = V2Group(limiting(hierarchies.places(pid)[UNIFIED]))
    else:
        group = Tree(hierarchies, {}, "").of_process(pid)
    for directory in group.directories:
        if not _INSIDE.search(directory):
            raise NoCgroup(f"it has no cgroup of its own, but is in {directory}")
    return group


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
        raise ApplyFailed(f"Podman Update Failure: {why}", restored=restored, answered=answered)

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
