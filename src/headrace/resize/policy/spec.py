"""A ResizePolicy as its decisions read it. Amounts are millicores and bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.api.amounts import CPU, MEMORY, Amounts, amount, read
from headrace.api.objects import Fields, Object, metadata, name_of, namespace_of
from headrace.api.quantity import NANO, parse
from headrace.api.selectors import BadSelector, Selector, from_label_selector

THROTTLING, PRESSURE_CPU, PRESSURE_MEMORY = "throttling", "pressure-cpu", "pressure-memory"
RESOURCES_OF: Mapping[str, tuple[str, ...]] = {
    CPU: (CPU,),
    MEMORY: (MEMORY,),
    THROTTLING: (CPU,),
    PRESSURE_CPU: (CPU,),
    PRESSURE_MEMORY: (MEMORY,),
}
"""What a metric resizes by default; an application's own resizes both."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """`share`: the amount is a part of the limit, 0 to 1."""

    side: Literal["above", "below"]
    amount: float
    share: bool = False

    def at(self, limit: float) -> float:
        return self.amount * limit if self.share else self.amount

    def is_crossed(self, value: float, limit: float) -> bool:
        edge = self.at(limit)
        return value > edge if self.side == "above" else value < edge


@dataclass(frozen=True, slots=True)
class Trigger:
    """`matching` of the latest `of` readings must be beyond the threshold."""

    metric: str
    resources: tuple[str, ...]
    up: Threshold | None
    down: Threshold | None
    matching: int
    of: int


@dataclass(frozen=True, slots=True)
class Policy:
    """Field by field what areas of the manifest say; see the kind's own description."""

    name: str
    mode: str
    selector: Selector
    containers: tuple[str, ...]
    triggers: tuple[Trigger, ...]
    up_factor: float
    down_factor: float
    least: Amounts
    most: Amounts
    quota: Amounts
    up_cooldown_seconds: float
    down_cooldown_seconds: float
    stabilization_seconds: float
    tolerance: float
    on_insufficient: str
    oom_factor: float
    oom_step_bytes: int
    stop_after_ups: int
    retry: Mapping[str, int]
    priority: int

    def includes(self, container: str) -> bool:
        return not self.containers or container in self.containers

    def share_of(self, resource: str) -> float:
        """The share of a limit that may be used before more is given."""
        shares = [each.up.amount for each in self.triggers if each.metric == resource and each.up and each.up.share]
        return min(shares, default=0.8)


def selects(policy: Object, pod: Object) -> bool:
    """Whether the policy is about this Pod. On a cluster it may have a selector that cannot be read: nothing, then."""
    if namespace_of(policy) != namespace_of(pod):
        return False
    try:
        return from_label_selector(policy["spec"]["selector"]).matches(metadata(pod).get("labels"))
    except BadSelector:
        return False


def policy_of(obj: Object) -> Policy:
    """Of an object that was validated and defaulted."""
    spec: Fields = obj["spec"]
    factors, cooldown, oom = spec["factors"], spec["cooldownSeconds"], spec["oom"]
    return Policy(
        name=name_of(obj),
        mode=str(spec["mode"]),
        selector=from_label_selector(spec["selector"]),
        containers=tuple(spec.get("containers") or ()),
        triggers=tuple(_trigger(each) for each in spec.get("triggers") or ()),
        up_factor=float(factors["up"]),
        down_factor=float(factors["down"]),
        least=read(spec.get("min")),
        most=read(spec.get("max")),
        quota=read(spec.get("quota")),
        up_cooldown_seconds=float(cooldown["up"]),
        down_cooldown_seconds=float(cooldown["down"]),
        stabilization_seconds=float(spec["stabilizationSeconds"]),
        tolerance=spec["tolerancePercent"] / 100,
        on_insufficient=str(spec["onInsufficient"]),
        oom_factor=float(oom["factor"]),
        oom_step_bytes=amount(MEMORY, str(oom["step"])),
        stop_after_ups=int(spec["stopAfterUps"]),
        retry=spec["retry"],
        priority=int(spec.get("priority") or 0),
    )


def _trigger(given: Mapping[str, Any]) -> Trigger:
    metric = str(given["metric"])
    samples = given["samples"]
    return Trigger(
        metric=metric,
        resources=tuple(given.get("resources") or RESOURCES_OF.get(metric, (CPU, MEMORY))),
        up=_threshold(metric, given.get("up")),
        down=_threshold(metric, given.get("down")),
        matching=int(samples["matching"]),
        of=max(int(samples["of"]), int(samples["matching"])),
    )


def _threshold(metric: str, given: Mapping[str, Any] | None) -> Threshold | None:
    if not given:
        return None
    side: Literal["above", "below"] = "above" if "above" in given else "below"
    text = str(given[side])
    if text.endswith("%"):
        return Threshold(side, int(text[:-1]) / 100, share=True)
    if metric in (CPU, MEMORY):
        return Threshold(side, float(amount(metric, text)))
    return Threshold(side, parse(text).nano / NANO)
