"""From a Pod's resources to limits and back: what a container is held to, and what is told of what was read.

Admitted is `status.containerStatuses[].allocatedResources` (keys cpu, memory, limits.cpu, limits.memory) as a whole
where it is recorded, else the spec. Never the desired values of a resize that is not admitted yet.

A container is held to what is admitted, but for a growth that is not in force and that nobody desires any more: that
one is not applied. Once the agent has told that it has seen so (observedGeneration), the growth is given back.
"""

from collections.abc import Mapping
from typing import Any

from headrace.api.amounts import amount
from headrace.api.quantity import Quantity
from headrace.node.pod import Container
from headrace.node.runtimes.protocol import Limits

PAGE_BYTES = 4096
RESTART = "RestartContainer"
SHARES_SLACK_MILLI = 2  # cpu.shares and cpu.weight are coarser than millicores


def admitted(container: Container, status: Mapping[str, Any]) -> Limits:
    """What the container may have."""
    return _limits(allocated(container, status))


def held_to(container: Container, status: Mapping[str, Any]) -> Limits:
    """What the container must be held to."""
    return _limits(_held_to(container, status))


def is_given_back(container: Container, status: Mapping[str, Any]) -> bool:
    """Whether a growth is admitted that is not to be applied any more."""
    return _held_to(container, status) != allocated(container, status)


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
    limits, is_told = held_to(container, status), _told(told)
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
    amounts = _held_to(container, status)
    limits = _limits(amounts)
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
    amounts = _held_to(container, status)
    limits: dict[str, str] = {
        name: amounts[f"limits.{name}"] for name in ("cpu", "memory") if f"limits.{name}" in amounts
    }
    requests: dict[str, str] = {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
    found: dict[str, dict[str, str]] = {"limits": limits, "requests": requests}
    return {key: value for key, value in found.items() if value}


def _held_to(container: Container, status: Mapping[str, Any]) -> dict[str, str]:
    """As allocatedResources. Never more than the larger of desired and told, which is what the ledger charges once the
    growth is given back.
    """
    record, wanted = allocated(container, status), _of_spec(container)
    told: Mapping[str, Any] = status.get("resources") or {}
    found = dict(record)
    for name in ("cpu", "memory"):
        limit = f"limits.{name}"
        has = (told.get("limits") or {}).get(name)
        if limit not in record or limit not in wanted or (told and has is None):
            continue  # no limit is more than any
        least = max(_amount(name, wanted[limit]), _amount(name, has or "0"))
        if least >= _amount(name, record[limit]):
            continue
        found[limit] = wanted[limit] if least == _amount(name, wanted[limit]) else str(has)
        if name in record and name in wanted and _amount(name, wanted[name]) < _amount(name, record[name]):
            found[name] = wanted[name]
    return found


def _amount(name: str, text: str) -> int:
    """Millicores, or pages of memory: as fine as the kernel keeps them."""
    return amount(name, text) // (1 if name == "cpu" else PAGE_BYTES)


def _of_spec(container: Container) -> dict[str, str]:
    limits: Mapping[str, Any] = container.resources.get("limits") or {}
    requests: Mapping[str, Any] = {**limits, **(container.resources.get("requests") or {})}
    found = {name: str(requests[name]) for name in ("cpu", "memory") if name in requests}
    return found | {f"limits.{name}": str(limits[name]) for name in ("cpu", "memory") if name in limits}


def _limits(amounts: Mapping[str, str]) -> Limits:
    """A limit of 0 is none, as for a kubelet."""

    return Limits(
        cpu_milli=amount("cpu", amounts.get("limits.cpu", "0")) or None,
        memory_bytes=amount("memory", amounts.get("limits.memory", "0")) or None,
        cpu_shares_milli=amount("cpu", amounts["cpu"]) if "cpu" in amounts else None,
    )


def _pages(amount: int | None) -> int | None:
    return None if amount is None else amount // PAGE_BYTES
