"""A recorded trace of usage through a policy, without a server: every decision is taken to be carried out at once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.api.amounts import CPU, MEMORY, Amounts, amount, quantities
from headrace.api.objects import Object
from headrace.api.times import to_micro_time
from headrace.metrics.protocol import Usage, Value
from headrace.resize.policy.decision import Container, Decision, Judged, Record, judge, words
from headrace.resize.policy.signals import shown, shown_threshold
from headrace.resize.policy.spec import Policy

POD, CONTAINER = "replayed", "app"
RESERVED = ("at", CPU, MEMORY, "oomKills", "throttledPeriods", "periods")
KEPT = 20
MARGIN_SECONDS = 30.0


class BadTrace(ValueError):
    """A line of a trace cannot be read; the message says which and what would be right."""


def replay(policy: Policy, limits: Amounts, lines: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """One dict for each decision, and one for each change of flags. Raises BadTrace.

    A line: `{"at": seconds, "cpu": "750m", "memory": "512Mi", "latency": 450, …}`; cpu is what is in use at that
    moment, other names are the application's own metrics.
    """
    first = dict(limits)
    usage: list[Usage] = []
    values: dict[str, list[Value]] = {}
    history: list[Object] = []
    flags: frozenset[str] = frozenset()
    used = 0.0
    for number, line in enumerate(lines, 1):
        at = _number(line, "at", number)
        if usage and at <= usage[-1].at:
            raise BadTrace(f"line {number}: at {at:g} must be later than {usage[-1].at:g}")
        used += _amount(line, CPU, number) / 1000 * (at - usage[-1].at if usage else 0.0)
        usage.append(_usage(line, at, used, number))
        for name in line.keys() - set(RESERVED):
            values.setdefault(name, []).append(Value(at, _number(line, name, number)))
        horizon = at - policy.stabilization_seconds - MARGIN_SECONDS
        if usage[0].at < horizon - policy.stabilization_seconds:  # now and then, not with every line
            usage = [each for each in usage if each.at >= horizon]
            values = {name: [each for each in series if each.at >= horizon] for name, series in values.items()}
        container = Container(_pod(limits), CONTAINER, f"Pod/{POD}", usage, values, tuple(history[-KEPT:]))
        answer = judge(container, policy, Record(first=first), _left(policy.quota, limits), at)
        if answer.flags != flags:
            flags = frozenset(answer.flags)
            yield {"at": at, "flags": sorted(flags)}
        if answer.decision is not None:
            yield _told(at, limits, answer, answer.decision)
            history.append(_action(limits, answer.decision, at))
            limits = {**limits, **answer.decision.target}


def _left(quota: Amounts, limits: Amounts) -> Amounts:
    return {name: amount - limits.get(name, 0) for name, amount in quota.items()}


def _told(at: float, limits: Amounts, answer: Judged, decision: Decision) -> dict[str, Any]:
    told: dict[str, Any] = {"at": at, "direction": decision.direction, "reason": decision.reason}
    told["from"] = quantities({name: limits[name] for name in decision.target})
    told["to"] = quantities(decision.target)
    if decision.metric:
        told |= {"metric": decision.metric, "value": shown(decision.value)}
        told["threshold"] = shown_threshold(decision.threshold)
    return told | {"message": words(decision)}


def _usage(line: Mapping[str, Any], at: float, used: float, number: int) -> Usage:
    memory = _amount(line, MEMORY, number)
    return Usage(
        at=at,
        cpu_seconds=used,
        periods=int(line.get("periods", 0)),
        throttled_periods=int(line.get("throttledPeriods", 0)),
        memory_bytes=memory,
        working_set_bytes=memory,
        pressure_cpu=None,
        pressure_memory=None,
        oom_kills=int(line.get("oomKills", 0)),
    )


def _pod(limits: Amounts) -> Object:
    texts = quantities(limits)
    container = {"name": CONTAINER, "resources": {"limits": texts, "requests": texts}}
    metadata = {"name": POD, "namespace": "default", "uid": POD}
    return {"metadata": metadata, "spec": {"nodeName": "node", "containers": [container]}, "status": {}}


def _action(limits: Amounts, decision: Decision, at: float) -> Object:
    cause = {"metric": decision.metric, "value": decision.value}
    spec = {"workload": f"{POD}/{CONTAINER}", "cause": cause}
    spec |= {"current": quantities(limits), "target": quantities(decision.target)}
    return {
        "metadata": {"name": str(at)},
        "spec": spec,
        "status": {"state": "Succeeded", "finishTime": to_micro_time(at)},
    }


def _number(line: Mapping[str, Any], name: str, number: int) -> float:
    value = line.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadTrace(f"line {number}: {name} must be a number, not {value!r}")
    return float(value)


def _amount(line: Mapping[str, Any], name: str, number: int) -> int:
    try:
        return amount(name, str(line.get(name, 0)))
    except ValueError as wrong:
        raise BadTrace(f"line {number}: {name} {line[name]!r}: {wrong}") from None
