"""The walk with pruning: the same order, so the same first answer, without the branches that cannot hold one.

It goes straight down first, unless devices have to match. Otherwise, and from the first dead end on, `Bounds` refuse
hopeless branches; then devices that nothing tells apart from one that failed are skipped, and positions that failed are
remembered. An error is met just where the plain
walk meets it, since only branches without one are left out. Not for odd structures.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from headrace.devices.allocate.bounds import Bounds, Position
from headrace.devices.allocate.partial import Partial, has_room_or_fails, placed
from headrace.devices.allocate.problem import Problem
from headrace.devices.allocate.requests import Want
from headrace.devices.allocate.structure import Structure
from headrace.devices.allocate.twins import Twins
from headrace.devices.allocate.walk import Devices, Walk

DEAD_ENDS_KEPT = 200_000


@dataclass(slots=True)
class _Options(Devices):
    """`options` are the devices left to try, `tried` the last of them, `key` what a dead end is remembered by."""

    options: int
    tried: int = -1
    key: Hashable = None


class FastWalk(Walk):
    def __init__(self, problem: Problem, structure: Structure) -> None:
        super().__init__(problem)
        self._structure = structure
        self._bounds = Bounds(problem, structure) if problem.demand.has_match else None
        self._twins: Twins | None = None
        self._dead: set[Hashable] = set()
        self._must_have_room = problem.features.ConsumableCapacity

    def _look(self, want: Want, number: int, partial: Partial, start: int) -> Devices | None:
        frame = _Options(want, number, partial, start, 0)
        if want.is_all:
            return frame if self._bounds is None or self._may_hold(frame, 0) else None
        frame.options = self._options(want, partial) >> start << start
        return frame if self._bounds is None or self._may_hold(frame, frame.options) else None

    def _options(self, want: Want, partial: Partial) -> int:
        """The devices to try: those that may fit, and those on which the walk would meet an error."""
        free = ~partial.mine if want.is_admin else ~(self.problem.used | partial.taken)
        if self._bounds is not None:
            options = self._bounds.options(partial, want)
        else:
            options = self._structure.candidates[want.number] & free
        if want.constraints and not self.problem.has_lists:
            options = self._structure.agreeing(options, self.problem, want, partial.values)
        return options | self._structure.errors[want.number] & free

    def _may_hold(self, frame: _Options, options: int) -> bool:
        """Whether the frame may lead to an answer, by what failed before and by the bounds."""
        bounds, twins = self._bounds, self._twins
        assert bounds is not None
        want, partial = frame.want, frame.partial
        if want.is_all:
            for index in self.problem.alls[want.number][frame.number :]:
                options |= 1 << index
            options &= bounds.options(partial, want)
        key = None if twins is None else twins.key(want, frame.number, partial, options)
        if key is not None and key in self._dead:
            return False
        before = bounds.work
        viable = bounds.viable(Position(want, frame.number, partial, options))
        self.work += bounds.work - before
        if not viable:
            if key is not None:
                self._remember(key)
            return False
        frame.options &= viable
        frame.key = key
        return True

    def _remember(self, key: Hashable) -> None:
        if len(self._dead) < DEAD_ENDS_KEPT:
            self._dead.add(key)

    def _one(self, frame: Devices, limit: int) -> Partial | None:
        assert isinstance(frame, _Options)
        while frame.options and self.work < limit:
            low = frame.options & -frame.options
            frame.options ^= low
            index = low.bit_length() - 1
            frame.cursor = index + 1
            self.work += 1
            if self._structure.errors[frame.want.number] & low:
                self.problem.is_selected(frame.want, index)
            if self._must_have_room and not self._is_roomy(frame, index):
                continue
            grown = placed(self.problem, frame.partial, frame.want, index)
            if grown is not None:
                frame.tried = index
                return grown
        return None

    def _is_roomy(self, frame: _Options, index: int) -> bool:
        want, partial = frame.want, frame.partial
        is_empty = not self.problem.state.held and not partial.shared
        if is_empty and not want.amounts and self.problem.devices[index].always_has_room:
            return True
        return has_room_or_fails(self.problem, partial, want, index)

    def _is_exhausted(self, frame: Devices) -> bool:
        assert isinstance(frame, _Options)
        if frame.options:
            return False
        if frame.key is not None:
            self._remember(frame.key)
        return True

    def _back(self) -> bool:
        if self._bounds is None:
            self._bounds = Bounds(self.problem, self._structure)
        return super()._back()

    def _resume(self, frame: Devices) -> Devices | None:
        """Go on with a frame whose last pick led nowhere."""
        assert isinstance(frame, _Options)
        if self._twins is None:
            self._twins = Twins(self.problem, self._structure)
        if frame.want.is_all:
            if frame.key is not None:
                self._remember(frame.key)
            return None
        failed = self._twins.of(frame.tried, frame.partial)
        if frame.key is None:
            frame.options &= self._options(frame.want, frame.partial)
            if not self._may_hold(frame, frame.options | 1 << frame.tried):
                return None
        frame.options &= ~failed
        return frame
