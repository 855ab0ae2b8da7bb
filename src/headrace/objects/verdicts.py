"""Which rows a selector chose before: a revision has one body for ever, so nobody has to look into it twice.

Who lists with a selector mostly lists again with the same one; decoding the bodies would be most of the work.
"""

from collections.abc import Callable

from headrace.api.kinds import Kind
from headrace.store.rows import Row

SELECTORS = 16
ROWS = 10_000

Asked = tuple[Kind, str, str]
"""The kind as it is shown, label selector, field selector."""


class Verdicts:
    """Of the last selectors, each about a bounded number of rows. For one file: revisions of another mean others."""

    def __init__(self, selectors: int = SELECTORS, rows: int = ROWS) -> None:
        self._selectors = selectors
        self._most = rows
        self._known: dict[Asked, dict[int, bool]] = {}

    def judge(self, asked: Asked, match: Callable[[bytes], bool]) -> Callable[[Row], bool]:
        """`match`, asked once for each row."""
        known = self._known.pop(asked, {})
        self._known[asked] = known
        if len(self._known) > self._selectors:
            del self._known[next(iter(self._known))]
        verdict_of = known.get

        def judged(row: Row) -> bool:
            verdict = verdict_of(row.revision)
            if verdict is None:
                if len(known) >= self._most:
                    known.clear()
                verdict = known[row.revision] = match(row.body)
            return verdict

        return judged
