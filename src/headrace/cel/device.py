"""Device selectors: compile an expression once, prepare a device once, then ask whether they match.

`compile_selector` raises CompileError; evaluating raises EvaluationError. Both carry Kubernetes' words
(k8s.io/dynamic-resource-allocation/cel).
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Environment = Literal["new", "new_list_attributes", "stored"]

# What an expression reads of a device: ("driver",), ("allowMultipleAllocations",), ("attributes", DOMAIN),
# ("attributes", DOMAIN, NAME), ("capacity", DOMAIN) or ("capacity", DOMAIN, NAME).
Column = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device's content in the evaluator's own values. Immutable: keep it as long as the ResourceSlice lives.

    `error` is set where Kubernetes fails every evaluation on this device (an attribute that cannot be read).
    """

    driver: str
    allow_multiple_allocations: bool
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]
    error: str | None = None


def prepare_device(
    driver: str,
    attributes: Mapping[str, Mapping[str, Any]],
    capacity: Mapping[str, Mapping[str, Any]],
    allow_multiple_allocations: bool | None = None,
) -> PreparedDevice:
    """From resource.k8s.io/v1 JSON (`{"model": {"string": "A100"}}`, `{"memory": {"value": "80Gi"}}`).

    A name without a domain gets the driver's.
    """
    raise NotImplementedError


class Selector:
    """A compiled selector; `output_type`, `max_cost` (worst case, up to 2**64-1) and `reads` are known without a device.

    `reads` is None where the whole device is needed.
    """

    expression: str
    environment: Environment
    output_type: str
    max_cost: int
    reads: frozenset[Column] | None

    def project(self, device: PreparedDevice) -> Hashable:
        """A key of what the selector reads of this device: equal keys give equal answers, errors included."""
        raise NotImplementedError

    def matches(self, device: PreparedDevice) -> bool:
        """Whether the device is selected; raises EvaluationError."""
        raise NotImplementedError

    def matches_with_cost(self, device: PreparedDevice) -> tuple[bool | None, int]:
        """The answer (None where `matches` would raise) and the cost that was spent on it."""
        raise NotImplementedError


def compile_selector(expression: str, environment: Environment = "stored") -> Selector:
    """Compile for evaluation ("stored") or for admission ("new", "new_list_attributes"); raises CompileError."""
    raise NotImplementedError


def with_hint(message: str) -> str:
    """A run-time error's text as the scheduler shows it: a missing key gets Kubernetes' hint."""
    if "no such key:" not in message:
        return message
    return (
        f"{message}. consider using CEL optional chaining (.? followed by orValue()) "
        "or guarding the check with has() for optional fields"
    )
