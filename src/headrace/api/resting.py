"""Work that takes long, as a generator: it yields where it may rest, and whoever runs it lets others have their turn.

What is spent is counted in steps of about a microsecond, not in time: the same work rests at the same places.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

TURN_STEPS = 2_000

Result = TypeVar("Result")
Resting = Generator[None, None, Result]
"""Work that yields where it may rest, and returns its result."""


@dataclass(slots=True)
class Turn:
    """What may still be done before a rest."""

    left: int = TURN_STEPS

    def is_over(self, steps: int = 1) -> bool:
        """After so many steps more; the next turn begins at once."""
        self.left -= steps
        if self.left > 0:
            return False
        self.left = TURN_STEPS
        return True


def finished(work: Resting[Result]) -> Result:
    """The result of work that is done without a rest."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
