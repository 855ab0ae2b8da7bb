"""What the books read of a Node: its capacity, what of it is reserved, what its agent confirmed, what strays it saw."""

from dataclasses import dataclass

import msgspec

from headrace.api.amounts import CPU, MEMORY, Amounts, minus, read
from headrace.api.objects import Fields, Object, metadata

CONFIRMED_ANNOTATION = "headrace.dev/confirmed-revision"
STRAYS_ANNOTATION = "headrace.dev/strays"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """`confirmed`: all deletions up to this revision are carried out there. `strays` are charged like Pods."""

    capacity: Amounts
    reserved: Amounts
    confirmed: int
    strays: tuple[tuple[str, Amounts], ...]


class _Stray(msgspec.Struct, frozen=True):
    cpu: int = 0
    memory: int = 0


_strays = msgspec.json.Decoder(dict[str, _Stray])


def facts_of(node: Object) -> NodeFacts:
    """Without allocatable all of the capacity is. Raises InvalidQuantity."""
    status: Fields = node.get("status") or {}
    capacity = read(status.get("capacity"))
    allocatable = read(status["allocatable"]) if status.get("allocatable") else capacity
    annotations: Fields = metadata(node).get("annotations") or {}
    confirmed = str(annotations.get(CONFIRMED_ANNOTATION, ""))
    return NodeFacts(
        capacity=capacity,
        reserved=minus(capacity, allocatable),
        confirmed=int(confirmed) if confirmed.isascii() and confirmed.isdigit() and len(confirmed) < 19 else 0,
        strays=strays_of(str(annotations.get(STRAYS_ANNOTATION, ""))),
    )


def strays_of(text: str) -> tuple[tuple[str, Amounts], ...]:
    """(holder, amounts) of each. Text that is not what agents write says nothing."""
    try:
        found = _strays.decode(text) if text else {}
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ()
    return tuple(
        (f"stray {name}", {resource: held for resource, held in ((CPU, stray.cpu), (MEMORY, stray.memory)) if held > 0})
        for name, stray in sorted(found.items())
    )
