"""From a Pod's resources to limits and back: what is admitted for a container, and what is told of what was read.

Admitted is `status.containerStatuses[].allocatedResources` (keys cpu, memory, limits.cpu, limits.memory) as a whole
where it is recorded, else the spec. Never the desired values of a resize that is not admitted yet.
"""

from collections.abc import Mapping
from typing import Any

from headrace.api.quantity import Quantity, parse
from headrace.node.pod import Container
from headrace.node.runtimes.protocol import Limits

PAGE_BYTES = 4096
RESTART = "RestartContainer"
SHARES_SLACK_MILLI = 2  # cpu.shares and cpu.weight are coarser than millicores


def admitted(container: Container, status: Mapping[str, Any]) -> Limits:
    """What the container must be held to."""
    return _limits(allocated(container, status))


def desired(container: Container) -> Limits:
    """What the spec asks for."""
    return _limits(_of_spec(container))


def allocated(container: Container, status: Mapping[str, Any]) -> dict[str, str]:
    """The admitted amounts as quantities, under the keys of allocatedResources."""
    recorded = status.get("allocatedResources")
    if recorded is None:
        return _of_spec(container)
    return {name: str(amount) for name, amount in recorded.items()}


def wants_restart(container: Container, status: Mapping[str, Any], id: str) -> bool:
    """Whether a resize that is admitted and not yet in force is of a resource whose resizePolicy is RestartContainer.

    Compared with what was told last, not with the cgroup: a change by somebody else is put right without a restart.
    Memory requests are enforced by nothing, so a change of theirs restarts nobody.
    """
    told = status.get("resources")
    if not told or str(status.get("containerID")).rpartition("/")[2] != id:  # nothing is told of this run yet
        return False
    limits, is_told = admitted(container, status), _told(told)
    cpu = (limits.cpu_milli, limits.cpu_shares_milli) != (is_told.cpu_milli, is_told.cpu_shares_milli)
    memory = _pages(limits.memory_bytes) != _pages(is_told.memory_bytes)
    restarting = {each.get("resourceName") for each in container.resize_policy if each.get("restartPolicy") == RESTART}
    return (cpu and "cpu" in restarting) or (memory and "memory" in restarting)


def _told(resources: Mapping[str, Any]) -> Limits:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return _limits({**requests, **{f"limits.{name}": amount for name, amount in limits.items()}})


def is_met(limits: Limits, actual: Limits) -> bool:
    """Whether what was read back enforces these limits, as exactly as the kernel can."""
    return (
        limits.cpu_milli == actual.cpu_milli
        and _pages(limits.memory_bytes) == _pages(actual.memory_bytes)
        and (
            limits.cpu_shares_milli is None
            or actual.cpu_shares_milli is None
            or abs(limits.cpu_shares_milli - actual.cpu_shares_milli)
            <= max(SHARES_SLACK_MILLI, limits.cpu_shares_milli // 50)
        )
    )


def reported(container: Container, status: Mapping[str, Any], actual: Limits) -> dict[str, dict[str, str]]:
    """`resources` of a container's status: limits as read back, requests as they are enforced (memory's are not)."""
    amounts = allocated(container, status)
    limits = admitted(container, status)
    told: dict[str, str] = {}
    if actual.cpu_milli is not None:
        same = actual.cpu_milli == limits.cpu_milli
        told["cpu"] = amounts["limits.cpu"] if same else str(Quantity(actual.cpu_milli * 10**6))
    if actual.memory_bytes is not None:
        same = _pages(actual.memory_bytes) == _pages(limits.memory_bytes)
        told["memory"] = amounts["limits.memory"] if same else str(Quantity(actual.memory_bytes * 10**9, "BinarySI"))
    requests: dict[str, str] = {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
    found: dict[str, dict[str, str]] = {"limits": told, "requests": requests}
    return {key: value for key, value in found.items() if value}


def for_the_start(container: Container, status: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """`resources` of a container that waits: what it would be started with. A kubelet tells that of what does not run.

    With it the node says which admission it has heard of, so that a shrink may release what the start will not use.
    """
    amounts = allocated(container, status)
    limits: dict[str, str] = {
        name: amounts[f"limits.{name}"] for name in ("cpu", "memory") if f"limits.{name}" in amounts
    }
    requests: dict[str, str] = {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
    found: dict[str, dict[str, str]] = {"limits": limits, "requests": requests}
    return {key: value for key, value in found.items() if value}


def _of_spec(container: Container) -> dict[str, str]:
    limits: Mapping[str, Any] = container.resources.get("limits") or {}
    requests: Mapping[str, Any] = {**limits, **(container.resources.get("requests") or {})}
    found = {name: str(requests[name]) for name in ("cpu", "memory") if name in requests}
    return found | {f"limits.{name}": str(limits[name]) for name in ("cpu", "memory") if name in limits}


def _limits(amounts: Mapping[str, str]) -> Limits:
    """A limit of 0 is none, as for a kubelet."""

    def read(name: str) -> Quantity | None:
        return parse(amounts[name]) if name in amounts else None

    cpu, memory, request = read("limits.cpu"), read("limits.memory"), read("cpu")
    return Limits(
        cpu_milli=(cpu.milli() or None) if cpu is not None else None,
        memory_bytes=(memory.value() or None) if memory is not None else None,
        cpu_shares_milli=request.milli() if request is not None else None,
    )


def _pages(amount: int | None) -> int | None:
    return None if amount is None else amount // PAGE_BYTES
