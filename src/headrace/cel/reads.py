"""What of a device an expression reads, found in its plan: columns are ways into `device` made of constant names."""

from collections.abc import Iterator

from headrace.cel.plan import Attribute, Plan, Step

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
    if isinstance(step, Attribute) and step.slot == device:
        yield _column(step)
    for part in step.parts():
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
