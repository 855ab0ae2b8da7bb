"""Expressions that select devices, and what is wrong with them. Compiling one takes up to 60 ms and a claim may have
hundreds: they are compiled ahead, each in a turn of its own, and looked up when the claim is judged.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.api.resting import Resting

KEPT_CHARACTERS = 8_000_000  # several times what fits into an object


class Verdict(NamedTuple):
    """What is wrong with an expression, or "", and what it costs at most."""

    fault: str
    cost: int


class Expressions:
    """Those asked for last, with their verdicts: a template's are asked for with every claim."""

    def __init__(self, most: int = KEPT_CHARACTERS) -> None:
        self._known: dict[str, Verdict] = {}
        self._room = most

    def verdict(self, expression: str) -> Verdict:
        found = self._known.pop(expression, None)
        if found is None:
            found = _compiled(expression)
            self._room -= len(expression) + len(found.fault)
        self._known[expression] = found
        while self._room < 0:
            oldest = next(iter(self._known))
            self._room += len(oldest) + len(self._known.pop(oldest).fault)
        return found

    def compile_ahead(self, expressions: Iterable[str]) -> Resting[None]:
        for expression in expressions:
            if expression not in self._known:
                self.verdict(expression)
                yield


def _compiled(expression: str) -> Verdict:
    # Not at the top: a server that holds no selectors starts sooner, and smaller, without CEL.
    from headrace.cel.device import COST_LIMIT, EXPRESSION_BYTES, compile_selector
    from headrace.cel.errors import CompileError

    if len(expression.encode()) > EXPRESSION_BYTES:
        return Verdict("", COST_LIMIT)  # refused for its length where the claim is judged
    try:
        return Verdict("", compile_selector(expression, "new").max_cost)
    except CompileError as error:
        return Verdict(error.detail, 0)


known = Expressions()
