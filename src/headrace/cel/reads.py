"""What of a device an expression reads, found in its plan: columns are ways into `device` made of constant names."""

from collections.abc import Iterator

from headrace.cel.plan import (
    Attribute,
    Constant,
    Equality,
    Fallback,
    Fold,
    Invocation,
    Logic,
    MakeList,
    MakeMap,
    MakeObject,
    Membership,
    Plan,
    Step,
)

# ("driver",), ("allowMultipleAllocations",), ("attributes", DOMAIN), ("attributes", DOMAIN, NAME), and so for capacity.
Column = tuple[str, ...]
_DEEPEST = 3


def columns(plan: Plan) -> frozenset[Column] | None:
    """All that is read; None where it is not only columns (a domain that is computed, a walk over all domains)."""
    device = plan.variables["device"]
    found: set[Column] = set()
    for column in _read(plan.root, device):
        if column is None:
            return None
        found.add(column)
    return frozenset(found)


def _read(step: Step, device: int) -> Iterator[Column | None]:
    if isinstance(step, Attribute):
        if step.slot == device:
            yield _column(step)
        for qualifier in step.qualifiers:
            if qualifier.step is not None:
                yield from _read(qualifier.step, device)
    for part in _parts(step):
        yield from _read(part, device)


def _column(step: Attribute) -> Column | None:
    names: list[str] = []
    for qualifier in step.qualifiers[:_DEEPEST]:
        if qualifier.step is not None or type(qualifier.key) is not str:
            break
        names.append(qualifier.key)
    if not names or (names[0] in ("attributes", "capacity") and len(names) < 2):
        return None
    return tuple(names[: 1 if names[0] not in ("attributes", "capacity") else _DEEPEST])


def _parts(step: Step) -> list[Step]:
    match step:
        case Attribute():
            parts = [each for each in (step.operand, step.condition) if each is not None]
            return [*parts, *(step.branches or ())]
        case Logic(terms=terms):
            return terms
        case Equality(one=one, other=other):
            return [one, other]
        case Membership(value=value):
            return [value]
        case Fallback(optional=optional, other=other):
            return [optional, other]
        case Invocation(arguments=arguments):
            return arguments
        case MakeList(elements=elements):
            return elements
        case MakeMap(entries=entries):
            return [each for key, value, _ in entries for each in (key, value)]
        case MakeObject(fields=fields):
            return fields
        case Fold():
            return [step.range, step.initial, step.condition, step.step, step.result]
        case Constant():
            return []
    raise AssertionError(f"{type(step).__name__} has parts unknown")
