"""The plain depth-first walk, step for step as Kubernetes' allocator takes it: the first full answer wins.

It is the measure of the faster search, and the only way where an error could be met, since an error counts just if
the walk gets there. It stops after any number of steps and goes on later.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.devices.allocate.failure import Failure
from headrace.devices.allocate.partial import Partial, has_room_or_fails, is_free, placed
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import RESULTS_PER_CLAIM, Want

DESCENT = 100


@dataclass(slots=True)
class Devices:
    """Looking for the next device of one want; `cursor` is the next to be tried."""

    want: Want
    number: int
    partial: Partial
    cursor: int


@dataclass(slots=True)
class _Alternatives:
    """Trying the subrequests of a request one after the other."""

    claim: int
    request: int
    partial: Partial
    at: int
    has_only_exceeded: bool


class _ClaimEnd:
    """The border after a claim: a limit exceeded in a later claim is no more than a dead end for this one."""


_Frame = Devices | _Alternatives | _ClaimEnd


class Walk:
    """`run` returns the full answer, None for "no answer", or raises Failure; `is_over` tells them from "not yet".

    `steps` counts as Kubernetes does (one for each device, request and claim begun), `work` counts devices tried too.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.is_over = False
        self.steps = 0
        self.work = 0
        self.furthest: Want | None = None
        self._claims = problem.demand.claims
        self._stack: list[_Frame] = []
        # Just one of these says what comes next: a request to begin, a frame to go on with, or a dead end's kind.
        first = Partial(values=self._claims[0].start) if self._claims else Partial()
        self._request: tuple[int, int, Partial] | None = (0, 0, first)
        self._frame: Devices | None = None
        self._exceeded = False

    def run(self, work: int) -> Partial | None:
        """Go on for at most about that much work."""
        limit = self.work + work
        while self.work < limit:
            if self._frame is not None:
                self._advance(self._frame, limit)
            elif self._request is not None:
                answer = self._enter(*self._request)
                if answer is not None:
                    self.is_over = True
                    return answer
            elif not self._back():
                self.is_over = True
                return None
        return None

    def _enter(self, claim: int, request: int, partial: Partial) -> Partial | None:
        """Begin a request; returns the answer when nothing is left to do."""
        self._request = None
        self._step()
        if claim >= len(self._claims):
            return partial
        requests = self._claims[claim].requests
        if request >= len(requests):
            self._stack.append(_ClaimEnd())
            start = self._claims[claim + 1].start if claim + 1 < len(self._claims) else ()
            self._request = (claim + 1, 0, partial.for_claim(start))
            return None
        if requests[request].is_prioritized:
            self._stack.append(_Alternatives(claim, request, partial, 0, True))
            self._step()
        self._begin(requests[request].wants[0], 0, partial, 0)
        return None

    def _step(self) -> None:
        self.steps += 1
        self.work += 1

    def _begin(self, want: Want, number: int, partial: Partial, start: int) -> None:
        """Look for device `number` of the want, or go on to the next request if it has all it needs."""
        count = self.problem.count(want)
        if want.is_all and count == 0:
            self._exceeded = False
        elif number >= count:
            self._request = (want.claim, want.place + 1, partial)
        elif count - number > RESULTS_PER_CLAIM - partial.in_claim:
            self._exceeded = True
        else:
            self.furthest = want
            self._frame = self._look(want, number, partial, start)
            self._exceeded = False

    def _look(self, want: Want, number: int, partial: Partial, start: int) -> Devices | None:
        """How to look for the device; None where it is known that no answer lies there."""
        return Devices(want, number, partial, start)

    def _advance(self, frame: Devices, limit: int) -> None:
        """Take the next device that fits and go on from there, or give the frame up."""
        grown = self._all(frame) if frame.want.is_all else self._one(frame, limit)
        if grown is not None:
            self._frame = None
            self._stack.append(frame)
            self._step()
            self._begin(frame.want, frame.number + 1, grown, 0 if frame.want.is_all else frame.cursor)
        elif frame.want.is_all or self._is_exhausted(frame):
            self._frame, self._exceeded = None, False

    def _is_exhausted(self, frame: Devices) -> bool:
        return frame.cursor >= len(self.problem.devices)

    def _all(self, frame: Devices) -> Partial | None:
        if frame.cursor:
            return None  # the order of all devices does not matter, so there is one try
        frame.cursor = 1
        return placed(self.problem, frame.partial, frame.want, self.problem.alls[frame.want.number][frame.number])

    def _one(self, frame: Devices, limit: int) -> Partial | None:
        problem, partial, want = self.problem, frame.partial, frame.want
        while frame.cursor < len(problem.devices) and self.work < limit:
            index = frame.cursor
            frame.cursor += 1
            self.work += 1
            if not is_free(problem, partial, want, index) or not problem.is_selected(want, index):
                continue
            if problem.features.ConsumableCapacity and not has_room_or_fails(problem, partial, want, index):
                continue
            grown = placed(problem, partial, want, index)
            if grown is not None:
                return grown
        return None

    def _back(self) -> bool:
        """Hand the dead end to the frame above; False when there is none left."""
        if not self._stack:
            if self._exceeded:
                raise Failure("limit", "allocation max size exceeded")
            return False
        frame = self._stack.pop()
        self.work += 1
        if isinstance(frame, _ClaimEnd):
            self._exceeded = False
        elif isinstance(frame, _Alternatives):
            self._other(frame)
        elif not self._exceeded:
            self._frame = self._resume(frame)
        return True

    def _resume(self, frame: Devices) -> Devices | None:
        """Go on with a frame whose last pick led nowhere; None if no other can lead further."""
        return frame

    def _other(self, frame: _Alternatives) -> None:
        frame.has_only_exceeded = frame.has_only_exceeded and self._exceeded
        frame.at += 1
        wants = self._claims[frame.claim].requests[frame.request].wants
        if frame.at >= len(wants):
            self._exceeded = frame.has_only_exceeded
            return
        self._stack.append(frame)
        self._step()
        self._begin(wants[frame.at], 0, frame.partial, 0)


class Descent:
    """The plain walk up to its first dead end, which most demands never meet; asks as few selectors as can be.

    It gives up too after so many devices tried in vain that a look at all of them is cheaper. `work` is what it took.
    """

    __slots__ = ("_must_look", "problem", "work")

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.work = 0
        is_simple = problem.view.is_simple and not problem.state.shared
        self._must_look = problem.features.ConsumableCapacity and not is_simple

    def run(self) -> Partial | None:
        """The answer, if the way straight down has it; raises Failure where the walk would."""
        partial: Partial | None = None
        for claim in self.problem.demand.claims:
            partial = Partial(values=claim.start) if partial is None else partial.for_claim(claim.start)
            for request in claim.requests:
                want = request.wants[0]
                missing = self.problem.count(want)
                if missing > RESULTS_PER_CLAIM - partial.in_claim:
                    return None
                if want.is_all:
                    partial = self._all(want, partial) if missing else None
                else:
                    partial = self._first(want, missing, partial)
                if partial is None:
                    return None
        return partial or Partial()

    def _all(self, want: Want, partial: Partial) -> Partial | None:
        for index in self.problem.alls[want.number]:
            self.work += 1
            grown = placed(self.problem, partial, want, index)
            if grown is None:
                return None
            partial = grown
        return partial

    def _first(self, want: Want, missing: int, partial: Partial) -> Partial | None:
        """The answer with the first devices that the want may have."""
        problem, chosen = self.problem, self.problem.chosen(want)
        options = problem.view.everything & ~(partial.mine if want.is_admin else problem.used | partial.taken)
        while missing > 0:
            options &= ~chosen.asked | chosen.yes | chosen.error
            if not options or self.work >= DESCENT:
                return None
            bit = options & -options
            options ^= bit
            index = bit.bit_length() - 1
            self.work += 1
            if not chosen.asked & bit:
                problem.ask(want, index, chosen)
            if chosen.error & bit:
                problem.is_selected(want, index)
            elif not chosen.yes & bit:
                continue
            if self._must_look and not has_room_or_fails(problem, partial, want, index):
                continue
            grown = placed(problem, partial, want, index)
            if grown is not None:
                partial, missing = grown, missing - 1
        return partial
