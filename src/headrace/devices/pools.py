"""What drivers got wrong about their pools, and how people are told: an Event on the slice, a condition on the Node.

Nothing is given from a pool that is invalid; the allocator sees to that by itself. Slices of one generation that
disagree about their number are incomplete for Kubernetes 1.37, invalid for later releases. Source: KEP-4381, KEP-4815.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.api.kinds import NODE, RESOURCE_SLICE
from headrace.api.objects import Fields, Object, name_of, uid_of, version_of
from headrace.api.quantity import parse
from headrace.api.times import to_time
from headrace.runtime.actions import Action, Event, Patch

CONDITION = "headrace.dev/DevicePoolsValid"
MESSAGE_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Seen:
    """`pools`: all slices of each pool that has one for this node, by `driver/pool`. `node`: None for pools of none."""

    node: Object | None
    pools: Mapping[str, Sequence[Object]]


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    found = {pool: problems(slices) for pool, slices in sorted(seen.pools.items())}
    told = [f"pool {pool}: {problem}" for pool, each in found.items() for problem in each]
    condition = _condition(seen.node, told, now) if seen.node is not None else ()
    if seen.node is not None and not condition:
        return ()  # it was told
    events = [_event(seen.pools[pool], pool, each) for pool, each in found.items() if each]
    return (*condition, *events)


def problems(slices: Sequence[Object]) -> tuple[str, ...]:
    """Of the newest generation, in sentences. A pool that is still being published has none."""
    newest = max((_generation(each) for each in slices), default=0)
    current = sorted((each for each in slices if _generation(each) == newest), key=name_of)
    return tuple(dict.fromkeys((*_wrong_numbers(current, newest), *_duplicates(current), *_wrong_counters(current))))


def _wrong_numbers(current: Sequence[Object], generation: int) -> Iterator[str]:
    counts = sorted({int(_pool(each).get("resourceSliceCount") or 0) for each in current})
    if len(counts) > 1:
        told = ", ".join(map(str, counts))
        yield f"slices of generation {generation} disagree about resourceSliceCount ({told}): nothing is given from it"
    elif counts and len(current) > counts[0]:
        yield (
            f"has {len(current)} slices of generation {generation}, but resourceSliceCount {counts[0]}: "
            "it counts as incomplete, nothing is given from it"
        )


def _duplicates(current: Sequence[Object]) -> Iterator[str]:
    for what, names in (
        ("device", [str(each.get("name")) for each in _devices(current)]),
        ("counter set", [str(each.get("name")) for each in _sets(current)]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{what} {name} is published {count} times: nothing is given from it"


def _wrong_counters(current: Sequence[Object]) -> Iterator[str]:
    available = {
        (str(each.get("name")), name): parse(str(value.get("value", "0"))).nano
        for each in _sets(current)
        for name, value in (each.get("counters") or {}).items()
    }
    for device in _devices(current):
        for each in device.get("consumesCounters") or ():
            for name, value in (each.get("counters") or {}).items():
                counter = f"counter {each.get('counterSet')}/{name}"
                has = available.get((str(each.get("counterSet")), name))
                what = f"device {device.get('name')} consumes"
                if has is None:
                    yield f"{what} {counter}, which no slice defines: nothing is given from it"
                elif parse(str(value.get("value", "0"))).nano > has:
                    yield f"{what} more of {counter} than there is: it can never be given"


def _condition(node: Object | None, told: Sequence[str], now: float) -> tuple[Action, ...]:
    """Absent until something was wrong once."""
    if node is None:
        return ()
    known = next(
        (each for each in (node.get("status") or {}).get("conditions") or () if each.get("type") == CONDITION), None
    )
    if known is None and not told:
        return ()
    wanted = {
        "type": CONDITION,
        "status": "False" if told else "True",
        "reason": "InvalidResourcePool" if told else "AllPoolsValid",
        "message": "; ".join(told)[:MESSAGE_LIMIT] or "drivers published nothing that is wrong",
    }
    if known is not None and all(known.get(part) == value for part, value in wanted.items()):
        return ()
    turned = known is None or known.get("status") != wanted["status"]
    stamp = to_time(now) if turned or known is None else str(known.get("lastTransitionTime"))
    fields = {"status": {"conditions": [{**wanted, "lastTransitionTime": stamp}]}}
    return (Patch(NODE, "", name_of(node), fields, version_of(node), "status", strategic=True),)


def _event(slices: Sequence[Object], pool: str, found: Iterable[str]) -> Event:
    first = min(slices, key=name_of)
    message = f"pool {pool}: {'; '.join(found)}"[:MESSAGE_LIMIT]
    return Event(RESOURCE_SLICE, "", name_of(first), uid_of(first), "Warning", "InvalidResourcePool", message)


def _pool(resource_slice: Fields) -> Fields:
    found: Fields = (resource_slice.get("spec") or {}).get("pool") or {}
    return found


def _generation(resource_slice: Fields) -> int:
    return int(_pool(resource_slice).get("generation") or 0)


def _devices(slices: Iterable[Fields]) -> Iterator[Fields]:
    for each in slices:
        yield from (each.get("spec") or {}).get("devices") or ()


def _sets(slices: Iterable[Fields]) -> Iterator[Fields]:
    for each in slices:
        yield from (each.get("spec") or {}).get("sharedCounters") or ()
