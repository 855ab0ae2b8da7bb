"""What a Pod holds on its node, by kube-scheduler's formula; the larger of what is admitted and what is so.

Admitted is `status.containerStatuses[].allocatedResources` where it is recorded, else the spec; desired never counts,
so a resize that waits blocks nobody. A managed Pod holds the larger of request and limit of each container.
Source: k8s.io/component-helpers/resource (PodRequests), KEP-1287, KEP-753 (sidecars), KEP-2837 (Pod level resources).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.api.amounts import CPU, LIMITS, MEMORY, PODS, Amounts, larger, plus, read
from headrace.api.objects import Fields, Object, key_of, metadata

MANAGED_LABEL = "headrace.dev/managed"
TERMINAL = ("Succeeded", "Failed")
LISTS = (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses"))
"""Where a Pod's containers are in its spec, and what is told of them in its status."""
RESIZABLE = (CPU, MEMORY)
NOTHING: Amounts = {}
ONE_POD: Amounts = {PODS: 1}


@dataclass(frozen=True, slots=True)
class Container:
    """`initial` runs before the others, and as long as they do if it is a `sidecar`."""

    name: str
    admitted: Amounts
    actual: Amounts = field(default_factory=dict)
    initial: bool = False
    sidecar: bool = False
    bounded: bool = True


@dataclass(frozen=True, slots=True)
class Contribution:
    """What the books read of a Pod. `whole`: what it asks for as a whole; its containers' sum counts where it is more.

    No API server takes a Pod whose containers ask for more than it does. But after a resize of both they may still have
    what they had; and several limits, each within the Pod's, are more than it together.
    """

    node: str
    holder: str
    containers: tuple[Container, ...]
    overhead: Amounts = field(default_factory=dict)
    whole: Amounts = field(default_factory=dict)
    uid: str = ""

    def admitted(self) -> Amounts:
        """What it may have, whatever it has now."""
        return self._sum(lambda container: container.admitted)

    def held(self) -> Amounts:
        """What it is charged."""
        return self._sum(lambda container: larger(container.admitted, container.actual))

    def wish(self, before: "Contribution | None") -> Amounts:
        """What it would be charged if only what is admitted changed: facts of the same write are not judged."""
        if before is None:
            return self.admitted()
        actual = {container.name: container.actual for container in before.containers}
        return self._sum(lambda container: larger(container.admitted, actual.get(container.name, NOTHING)))

    def unbounded(self) -> tuple[str, ...]:
        """Containers without a limit of cpu or memory: they hold their request and may use more."""
        return tuple(container.name for container in self.containers if not container.bounded)

    def _sum(self, of: Callable[[Container], Amounts]) -> Amounts:
        together: Amounts = NOTHING
        sidecars: Amounts = NOTHING
        start: Amounts = NOTHING
        for container in self.containers:
            amounts = of(container)
            if container.sidecar:
                sidecars = plus(sidecars, amounts)
                start = larger(start, sidecars)
            if container.initial and not container.sidecar:
                start = larger(start, plus(sidecars, amounts))
            else:
                together = plus(together, amounts)
        found = larger(larger(together, start), self.whole)
        return plus(plus(found, self.overhead), ONE_POD)


def holder_of(pod: Fields) -> str:
    """The name under which a Pod stands in its node's ledger."""
    return f"Pod {key_of(pod)}"


def charged(pod: Object) -> Contribution | None:
    """None if it holds nothing: not bound yet, or ended. Raises InvalidQuantity."""
    spec: Fields = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in TERMINAL:
        return None
    return contribution(pod)


def contribution(pod: Object) -> Contribution:
    """What it holds, or would hold once it is bound (`.admitted()`). Raises InvalidQuantity."""
    spec: Fields = pod.get("spec") or {}
    managed = (metadata(pod).get("labels") or {}).get(MANAGED_LABEL) == "true"
    whole = spec.get("resources")
    return Contribution(
        node=str(spec.get("nodeName") or ""),
        holder=holder_of(pod),
        containers=tuple(_containers(spec, pod.get("status") or {}, managed)),
        overhead=read(spec.get("overhead")),
        whole=_held(read(whole.get("requests")), read(whole.get("limits")), managed) if whole else NOTHING,
        uid=str(metadata(pod).get("uid", "")),
    )


def _containers(spec: Fields, status: Fields, managed: bool) -> Iterator[Container]:
    mappings = (status.get("extendedResourceClaimStatus") or {}).get("requestMappings") or ()
    served = frozenset(str(each.get("resourceName")) for each in mappings)
    for containers, statuses in LISTS:
        initial = containers == "initContainers"
        found = {each.get("name"): each for each in status.get(statuses) or ()}
        for container in spec.get(containers) or ():
            told = found.get(container.get("name"), NOTHING)
            sidecar = initial and container.get("restartPolicy") == "Always"
            container_facts = _container(container, told, managed, initial, sidecar)
            yield _without(container_facts, served) if served else container_facts


def _without(container: Container, served: frozenset[str]) -> Container:
    """What devices serve is no amount of the node."""
    return replace(
        container,
        admitted={name: amount for name, amount in container.admitted.items() if name not in served},
        actual={name: amount for name, amount in container.actual.items() if name not in served},
    )


def _container(container: Fields, told: Mapping[str, Any], managed: bool, initial: bool, sidecar: bool) -> Container:
    resources: Fields = container.get("resources") or {}
    requests, limits = read(resources.get("requests")), read(resources.get("limits"))
    recorded = told.get("allocatedResources")
    if recorded:
        requests, limits = _recorded(requests, limits, read(recorded))
    actual: Fields = told.get("resources") or {}
    return Container(
        name=str(container.get("name", "")),
        admitted=_held(requests, limits, managed),
        actual=_held(read(actual.get("requests")), read(actual.get("limits")), managed) if actual else NOTHING,
        initial=initial,
        sidecar=sidecar,
        bounded=all(name in limits for name in RESIZABLE),
    )


def _recorded(requests: Amounts, limits: Amounts, recorded: Amounts) -> tuple[Amounts, Amounts]:
    """cpu and memory as recorded as a whole: what the record leaves out is not admitted. The rest as in the spec."""
    kept = {name: amount for name, amount in requests.items() if name not in RESIZABLE}
    kept_limits = {name: amount for name, amount in limits.items() if name not in RESIZABLE}
    for name, amount in recorded.items():
        if name.startswith(LIMITS):
            kept_limits[name.removeprefix(LIMITS)] = amount
        else:
            kept[name] = amount
    return kept, kept_limits


def _held(requests: Amounts, limits: Amounts, managed: bool) -> Amounts:
    return larger(requests, limits) if managed else requests
