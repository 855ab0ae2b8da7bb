"""One actuator per running container: it converges the limits in force to the admitted ones and says what it read back.

Revisions only grow: what was decided at a lower revision of the Pod never overrides a higher one.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headrace.node.admitted import is_met
from headrace.node.containers import Problem
from headrace.node.runtimes.protocol import (
    ApplyFailed,
    Limits,
    MemoryInUse,
    NotRunning,
    Runtime,
    RuntimeUnavailable,
    Unreadable,
)

SYNC_SECONDS = 30.0
RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Told:
    """`drifted` tells of a change by somebody else, which has been put right; empty otherwise."""

    id: str
    drifted: str = ""


class Actuator:
    """`tell` is called after each pass that changed what there is to say. `actual` is None until the first reading."""

    def __init__(
        self,
        id: str,
        runtime: Runtime,
        *,
        limits: Limits,
        revision: int,
        tell: Callable[[Told], None],
        sync_seconds: float = SYNC_SECONDS,
    ) -> None:
        self.id = id
        self.limits, self.revision = limits, revision
        self.actual: Limits | None = None
        self.is_read = False  # whether `actual` is of the latest pass
        self.problem: Problem | None = None
        self.in_force = -1  # the revision whose limits were read back
        self._runtime, self._tell, self._sync_seconds = runtime, tell, sync_seconds
        self._is_open = False  # a call has had no answer: it may take effect yet
        self._lock, self._wake, self._passed = asyncio.Lock(), asyncio.Event(), asyncio.Event()

    @property
    def is_converged(self) -> bool:
        return self.in_force == self.revision

    def aim(self, limits: Limits, revision: int) -> None:
        """Hold the container to these limits from now on; ignored if decided earlier than what is known."""
        if revision < self.revision:
            return
        if limits == self.limits:
            if self.is_converged:
                self.in_force = revision
            self.revision = revision
            return
        self.limits, self.revision = limits, revision
        self._wake.set()

    def look(self) -> None:
        """Something may have changed what is in force: compare now, not at the end of the period."""
        self._wake.set()

    async def run(self) -> None:
        """Converge when aimed anew, and once a period look for what others changed, until cancelled."""
        while True:
            self._wake.clear()
            await self.converge()
            pause = self._sync_seconds if self.problem is None else min(RETRY_SECONDS, self._sync_seconds)
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def passed(self) -> None:
        """Returns after the next pass."""
        await self._passed.wait()

    async def converge(self) -> None:
        """One pass: read, guard, apply, read back. Never raises for what the kernel refuses: `problem` says it."""
        async with self._lock:
            limits, revision = self.limits, self.revision
            before = (self.actual, self.problem, self.in_force)
            drifted = ""
            try:
                self.is_read = False
                actual = await self._runtime.read(self.id)
                self.is_read = True
                if not is_met(limits, actual):
                    if self.in_force == revision:
                        drifted = _drift(actual, limits)
                    actual = await self._runtime.apply(self.id, limits)
                elif self._is_open:
                    actual = await self._runtime.apply(self.id, limits)
                self._is_open = False
                self._settle(limits, revision, actual)
            except NotRunning:  # it has ended: whoever holds this actuator will hear of it
                return
            except MemoryInUse as error:
                self.problem = Problem(
                    "Error",
                    f"memory limit of {error.limit_bytes} bytes lies below the {error.usage_bytes} bytes in use; "
                    "the limit stays as it was until use has fallen",
                )
                self.actual = await self._reread()
            except (Unreadable, OSError) as error:
                self.is_read = False
                self.problem = Problem("Error", f"what is in force cannot be read: {error}")
            except ApplyFailed as error:
                self._is_open = self._is_open or not error.answered
                self.problem = Problem("Error", f"{error}; {_outcome(error)}")
                self.actual = await self._reread()
            except Exception as error:  # a runtime that is gone, say: one container's trouble is not the agent's
                self.is_read = False
                self.problem = Problem("Error", f"limits cannot be applied: {error}")
            self._passed.set()
            self._passed = asyncio.Event()
            if (self.actual, self.problem, self.in_force) != before or drifted:
                self._tell(Told(self.id, drifted))

    def _settle(self, limits: Limits, revision: int, actual: Limits) -> None:
        self.actual = actual
        if is_met(limits, actual):
            self.in_force, self.problem = revision, None
        else:
            said = f"asked for {limits}, but {actual} was read back"
            self.problem = Problem("Error", said)

    async def reading(self) -> Limits | None:
        """What is in force at this moment, also in the middle of a pass; None where that cannot be read."""
        try:
            found = await self._runtime.read(self.id)
        except (ApplyFailed, RuntimeUnavailable, OSError):
            return None
        if not is_met(self.limits, found):
            self.look()
        return found

    async def _reread(self) -> Limits | None:
        try:
            return await self._runtime.read(self.id)
        except Exception:  # the problem at hand is told already
            self.is_read = False
            return self.actual


def _outcome(failed: ApplyFailed) -> str:
    kept = "the previous limits are in force" if failed.restored else "the new ones may be half applied"
    return kept if failed.answered else f"{kept}, and the change may take effect yet"


def _drift(found: Limits, limits: Limits) -> str:
    if str(found) == str(limits):
        return f"found a cpu request of {found.cpu_shares_milli}m, put back {limits.cpu_shares_milli}m"
    return f"found {found}, put back {limits}"


class Actuators:
    """The actuators of this node, by container id. Each runs as a task of `tasks`.

    `drifts`: how many changes by others were found and put right.
    """

    def __init__(self, runtime: Runtime, tasks: asyncio.TaskGroup, sync_seconds: float = SYNC_SECONDS) -> None:
        self._runtime, self._tasks, self._sync_seconds = runtime, tasks, sync_seconds
        self.drifts = 0
        self._actuators: dict[str, tuple[Actuator, asyncio.Task[None]]] = {}

    def get(self, id: str) -> Actuator | None:
        found = self._actuators.get(id)
        return found[0] if found else None

    def hold(self, id: str, limits: Limits, revision: int, tell: Callable[[Told], None]) -> Actuator:
        """The container's actuator, aimed at these limits; made when it is new."""
        known = self.get(id)
        if known is None:
            known = Actuator(
                id,
                self._runtime,
                limits=limits,
                revision=revision,
                tell=partial(self._heard, tell),
                sync_seconds=self._sync_seconds,
            )
            self._actuators[id] = (known, self._tasks.create_task(known.run(), name=f"actuator {id}"))
        else:
            known.aim(limits, revision)
        return known

    def _heard(self, tell: Callable[[Told], None], told: Told) -> None:
        self.drifts += bool(told.drifted)
        tell(told)

    def release(self, id: str) -> None:
        """The container runs no more."""
        found = self._actuators.pop(id, None)
        if found:
            found[1].cancel()
