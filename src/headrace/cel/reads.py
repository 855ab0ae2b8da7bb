"""What of a device an expression reads, found in its plan: columns are ways into `device` made of constant names."""

from collections.abc import Iterator, Mapping

from headrace.cel.plan import Attribute, Constant, Fold, Invocation, Plan, Qualifier, Step

# ("driver",), ("allowMultipleAllocations",), ("attributes", DOMAIN), ("attributes", DOMAIN, NAME), and so for capacity.
Column = tuple[str, ...]
_DEEPEST = 3


def columns(plan: Plan) -> frozenset[Column] | None:
    """All that is read; None where it is not only columns (a domain that is computed, a walk over all domains)."""
    found: set[Column] = set()
    for column in _read(plan.root, {plan.variables["device"]: []}):
        if column is None:
            return None
        found.add(column)
    return frozenset(found)


def _read(step: Step, ways: Mapping[int, list[Qualifier]]) -> Iterator[Column | None]:
    """`ways` are the slots from which there is a way into the device: itself, and what cel.bind made of it."""
    if isinstance(step, Attribute) and step.slot is not None and step.slot in ways:
        yield _column([*ways[step.slot], *step.qualifiers])
    if isinstance(step, Fold) and _is_bound_way(step, ways):
        initial = step.initial
        assert isinstance(initial, Attribute)
        assert initial.slot is not None
        yield from _read(step.result, {**ways, step.accumulator: [*ways[initial.slot], *initial.qualifiers]})
        return
    named = _asked_name(step, ways)
    if named is not None:
        yield named
        return
    for part in step.parts():
        yield from _read(part, ways)


def _asked_name(step: Step, ways: Mapping[int, list[Qualifier]]) -> Column | None:
    """`"name" in device.attributes["domain"]` reads no more than the name."""
    if not isinstance(step, Invocation) or step.function != "@in" or len(step.arguments) != 2:
        return None
    name, domain = step.arguments
    if not isinstance(name, Constant) or type(name.value) is not str:
        return None
    if (
        not isinstance(domain, Attribute)
        or domain.slot is None
        or domain.slot not in ways
        or domain.test_id is not None
    ):
        return None
    column = _column([*ways[domain.slot], *domain.qualifiers])
    return (*column, name.value) if column is not None and len(column) == _DEEPEST - 1 else None


def _is_bound_way(step: Fold, ways: Mapping[int, list[Qualifier]]) -> bool:
    """Whether the fold is a cel.bind of something on the device, by constant names."""
    over, initial = step.range, step.initial
    return (
        isinstance(over, Constant)
        and over.value == []
        and isinstance(initial, Attribute)
        and initial.slot in ways
        and initial.test_id is None
        and all(each.step is None for each in initial.qualifiers)
    )


def _column(qualifiers: list[Qualifier]) -> Column | None:
    names: list[str] = []
    for qualifier in qualifiers[:_DEEPEST]:
        if qualifier.step is not None or type(qualifier.key) is not str:
            break
        names.append(qualifier.key)
    if not names or (names[0] in ("attributes", "capacity") and len(names) < 2):
        return None
    return tuple(names[: 1 if names[0] not in ("attributes", "capacity") else _DEEPEST])
