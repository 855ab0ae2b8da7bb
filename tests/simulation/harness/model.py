"""The simulation's own idea of who holds what: short, naive and independent of the ledger, to judge it by.

It knows only the Pods that the simulated users make: containers with cpu and memory, nothing else.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

from headrace.api.objects import Object
from headrace.api.quantity import parse

RESOURCES = ("cpu", "memory")
Two = tuple[int, int]
"""cpu in millicores, memory in bytes."""


@cache
def amount(resource: str, text: str) -> int:
    quantity = parse(text)
    return quantity.milli() if resource == "cpu" else quantity.value()


def two(quantities: Any) -> Two:
    cpu, memory = (amount(name, quantities[name]) if name in (quantities or {}) else 0 for name in RESOURCES)
    return cpu, memory


def larger(one: Two, other: Two) -> Two:
    return max(one[0], other[0]), max(one[1], other[1])


@dataclass(frozen=True, slots=True)
class ContainerModel:
    """`limits` are those admitted; None where there is none."""

    admitted: Two
    actual: Two
    limits: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class PodModel:
    uid: str
    node: str
    managed: bool
    ended: bool
    containers: dict[str, ContainerModel] = field(default_factory=dict)

    @property
    def is_charged(self) -> bool:
        return bool(self.node) and not self.ended

    def held(self) -> Two:
        return self._sum({name: larger(each.admitted, each.actual) for name, each in self.containers.items()})

    def wish(self, before: "PodModel | None") -> Two:
        """What it would hold if nothing but its admission had changed."""
        actual = {name: each.actual for name, each in before.containers.items()} if before else {}
        return self._sum(
            {name: larger(each.admitted, actual.get(name, (0, 0))) for name, each in self.containers.items()}
        )

    @staticmethod
    def _sum(amounts: dict[str, Two]) -> Two:
        return sum(cpu for cpu, _ in amounts.values()), sum(memory for _, memory in amounts.values())


def pod_model(pod: Object) -> PodModel:
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    managed = (meta.get("labels") or {}).get("headrace.dev/managed") == "true"
    told = {each["name"]: each for each in status.get("containerStatuses") or ()}
    containers = {}
    for container in spec["containers"]:
        resources = container.get("resources") or {}
        limits = dict(resources.get("limits") or {})
        requests = {**limits, **(resources.get("requests") or {})}
        record = told.get(container["name"], {}).get("allocatedResources")
        if record:
            requests = {name: record[name] for name in RESOURCES if name in record}
            limits = {name: record[f"limits.{name}"] for name in RESOURCES if f"limits.{name}" in record}
        actual = told.get(container["name"], {}).get("resources") or {}
        pairs = (requests, limits), (actual.get("requests"), actual.get("limits"))
        admitted, so = (larger(two(r), two(m)) if managed else two(r) for r, m in pairs)
        bounds = tuple(amount(name, limits[name]) if name in limits else None for name in RESOURCES)
        containers[container["name"]] = ContainerModel(admitted, so, (bounds[0], bounds[1]))
    ended = status.get("phase") in ("Succeeded", "Failed")
    return PodModel(meta["uid"], spec.get("nodeName") or "", managed, ended, containers)


@dataclass(frozen=True, slots=True)
class NodeModel:
    allocatable: Two
    confirmed: int


def node_model(node: Object) -> NodeModel:
    status = node.get("status") or {}
    annotations = node["metadata"].get("annotations") or {}
    confirmed = annotations.get("headrace.dev/confirmed-revision") or "0"
    return NodeModel(two(status.get("allocatable") or status.get("capacity")), int(confirmed))


@dataclass(frozen=True, slots=True)
class DepartedModel:
    """Deleted at `revision`, not confirmed by its node."""

    revision: int
    pod: PodModel
