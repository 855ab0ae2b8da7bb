"""Growing delays for keys that fail: exponential, bounded, and jittered so that many do not return at once."""

from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_SECONDS = 0.005
LONGEST_SECONDS = 60.0
DOUBLINGS = 32  # beyond this the delay is at its bound anyway; it keeps 2**n from growing without end


@dataclass(slots=True)
class Backoff:
    """`random` answers from 0 up to 1. A delay lies between half and all of first * 2**failures, at most longest."""

    random: Callable[[], float]
    first: float = FIRST_SECONDS
    longest: float = LONGEST_SECONDS
    _failures: dict[str, int] = field(default_factory=dict)

    def failed(self, key: str) -> float:
        """Count one more failure of this key; the seconds to wait before the next try."""
        failures = self._failures.get(key, 0)
        self._failures[key] = min(failures + 1, DOUBLINGS)
        delay: float = min(self.longest, self.first * 2**failures)
        return delay * (0.5 + self.random() / 2)

    def succeeded(self, key: str) -> None:
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        return self._failures.get(key, 0)
