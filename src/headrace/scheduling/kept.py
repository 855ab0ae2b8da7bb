"""What filters and scores said of each node, kept for Pods that ask the same, for as long as the node is the same."""

from collections import OrderedDict
from dataclasses import dataclass

import orjson

from headrace.api.objects import Fields
from headrace.ledger.node import Ledger
from headrace.scheduling.filters import Candidate, Wanted, reasons
from headrace.scheduling.plan import Placement
from headrace.scheduling.score import score

SORTS_KEPT = 64


@dataclass(frozen=True, slots=True)
class _Answer:
    node: Fields
    ledger: Ledger
    placement: Placement


class Kept:
    """Host ports and reservations name single Pods: nothing is kept where they are asked for, or in force."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, dict[str, _Answer]] = OrderedDict()

    def placement(self, sort: bytes, wanted: Wanted, candidate: Candidate) -> Placement:
        ledger = candidate.ledger
        if wanted.ports or ledger.floors:
            return _asked(wanted, candidate)
        answers = self._answers.get(sort)
        if answers is None:
            answers = self._answers[sort] = {}
            if len(self._answers) > SORTS_KEPT:
                self._answers.popitem(last=False)
        known = answers.get(candidate.name)
        if known is None or known.ledger is not ledger or known.node is not candidate.node:
            known = answers[candidate.name] = _Answer(candidate.node, ledger, _asked(wanted, candidate))
        return known.placement


def sort_of(wanted: Wanted) -> bytes:
    """Equal for Pods that filters and scores cannot tell apart."""
    spec = wanted.spec
    facts = (spec.get("nodeSelector"), spec.get("affinity"), spec.get("tolerations"))
    return orjson.dumps((wanted.amounts, sorted(wanted.backed), facts), option=orjson.OPT_SORT_KEYS)


def _asked(wanted: Wanted, candidate: Candidate) -> Placement:
    amounts = wanted.amounts_on(candidate.ledger)
    return Placement(candidate.name, reasons(wanted, candidate), score(candidate.ledger, amounts))
