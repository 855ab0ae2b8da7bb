"""What the runtime says runs here, by Pod: read again whenever it tells of a change, and now and then; never guessed.

A runtime that cannot be read ends nobody: containers run on, what was known stays known, and `problem` says it.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from structlog.typing import FilteringBoundLogger

from headrace.node.containers import pod_uid_of
from headrace.node.runtimes.protocol import ContainerState, Runtime
from headrace.runtime.backoff import Backoff
from headrace.runtime.clock import Clock

PERIOD_SECONDS = 30.0  # at least so often, whatever is told: a runtime that is gone may say nothing at all
ANSWER_SECONDS = 60.0
PATIENCE_SECONDS = 30.0  # a kubelet's: a node whose runtime is away for less stays ready
FIRST_SECONDS, LONGEST_SECONDS = 0.2, 10.0


class States:
    """`changed` is told the uid of each Pod whose containers changed."""

    def __init__(
        self,
        runtime: Runtime,
        changed: Callable[[str], None],
        *,
        clock: Clock,
        random: Callable[[], float],
        log: FilteringBoundLogger,
    ) -> None:
        self._runtime, self._changed = runtime, changed
        self._clock, self._log = clock, log
        self._backoff = Backoff(random, FIRST_SECONDS, LONGEST_SECONDS)
        self._states: dict[str, dict[str, ContainerState]] = {}
        self._since: dict[str, ContainerState | None] = {}  # put or dropped while the runtime is read
        self._stale = asyncio.Event()
        self._known = asyncio.Event()
        self._error = ""  # of the latest reading
        self._unread_since: float | None = None  # when the first reading began that has not succeeded

    def of(self, pod_uid: str) -> tuple[ContainerState, ...]:
        return tuple(self._states.get(pod_uid, {}).values())

    def pods(self) -> Iterable[str]:
        return tuple(self._states)

    def put(self, state: ContainerState) -> None:
        self._since[state.id] = state
        self._states.setdefault(state.pod_uid, {})[state.id] = state

    def drop(self, id: str) -> None:
        self._since[id] = None
        of_pod = self._states.get(pod_uid_of(id), {})
        of_pod.pop(id, None)
        if not of_pod:
            self._states.pop(pod_uid_of(id), None)

    def problem(self) -> str:
        """Why this node is not ready; empty while what runs here is known, or was until a moment ago."""
        if self._unread_since is None:
            return ""
        unread = self._clock.monotonic() - self._unread_since
        if unread < PATIENCE_SECONDS and (self._known.is_set() or not self._error):
            return ""
        return f"container runtime is down: {self._error or f'it has not answered for {PATIENCE_SECONDS:g} s'}"

    async def known(self) -> None:
        """Returns once everything was read."""
        await self._known.wait()

    async def look(self) -> bool:
        """Read everything anew; false, and told, where that cannot be done. Not twice at once."""
        if self._unread_since is None:
            self._unread_since = self._clock.monotonic()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._read()
        except Exception as error:
            self._error = str(error) or (
                f"no answer within {ANSWER_SECONDS:g} s" if isinstance(error, TimeoutError) else type(error).__name__
            )
            self._log.warning("containers cannot be read", error=self._error)
            return False
        if self._error:
            self._log.info("containers are read again")
        self._unread_since, self._error = None, ""
        self._known.set()
        return True

    async def follow(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hear(), name="changes of containers")
            while True:
                self._stale.clear()
                if not await self.look():
                    await self._clock.sleep(self._backoff.failed("read"))
                    continue
                self._backoff.succeeded("read")
                with suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD_SECONDS):
                        await self._stale.wait()

    async def _hear(self) -> None:
        """Of changes, as long as the runtime tells them; meanwhile `follow` reads by itself."""
        while True:
            try:
                async for _ in self._runtime.changes():
                    self._backoff.succeeded("hear")
                    self._stale.set()
                error = "the runtime has ended its telling"
            except Exception as failure:
                error = str(failure) or type(failure).__name__
            self._log.warning("changes of containers are not told", error=error)
            self._stale.set()  # some may have been missed
            await self._clock.sleep(self._backoff.failed("hear"))

    async def _read(self) -> None:
        """Tells of every Pod that looks different.

        The runtime may have looked before what was put or dropped meanwhile: a start must not be forgotten.
        """
        self._since.clear()
        found = {state.id: state for state in await self._runtime.list()}
        for id, state in self._since.items():
            if state is None:
                found.pop(id, None)
            else:
                found.setdefault(id, state)
        fresh: dict[str, dict[str, ContainerState]] = {}
        for state in found.values():
            fresh.setdefault(state.pod_uid, {})[state.id] = state
        before, self._states = self._states, fresh
        for uid in before.keys() | fresh.keys():
            if before.get(uid) != fresh.get(uid):
                self._changed(uid)
