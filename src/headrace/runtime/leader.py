"""Lease leader election: of several processes one acts, and one that lost its lease writes nothing, however it lost it.

Time is measured by a monotonic clock alone. A candidate waits a whole lease from the moment at which *it* saw the
record change; a leader stops trusting itself earlier, counted from *before* it sent its last renewal. So the two never
overlap, whatever the wall clocks say and wherever a process was paused.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import LEASE
from headrace.api.objects import Object, version_of
from headrace.api.times import to_micro_time
from headrace.runtime.clock import Clock
from headrace.store.protocol import AlreadyExists, Conflict, NotFound, Store, StoreError, Unavailable


class NotLeading(Unavailable):
    """This process does not hold the lease: it must not write, and nothing was sent."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. A leader without a renewal for `renew` no longer acts; others wait for `lease`, which must be longer."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry > 0:
            raise ValueError(f"{self}: must be lease > renew > retry > 0")


class Election:
    """One candidate for one lease. `random` answers from 0 up to 1 and spreads the tries of several candidates."""

    def __init__(
        self,
        store: Store,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        random: Callable[[], float],
        log: FilteringBoundLogger,
        times: LeaseTimes | None = None,
    ) -> None:
        self.identity = identity
        self._store, self._namespace, self._name = store, namespace, name
        self._clock, self._random = clock, random
        self._log = log.bind(lease=f"{namespace}/{name}", identity=identity)
        self._times = times or LeaseTimes()
        self._held_until: float | None = None
        self._transitions = 0
        self._seen: tuple[str, float] | None = None  # version of another's record, and when it was first seen

    @property
    def is_leader(self) -> bool:
        """Whether this process may act at this moment."""
        return self._held_until is not None and self._clock.monotonic() < self._held_until

    @property
    def transitions(self) -> int:
        """The number of this term: how often the lease has changed hands."""
        return self._transitions

    def confirm(self) -> None:
        """To be called before each act. Raises NotLeading."""
        if not self.is_leader:
            raise NotLeading(f"{self.identity} does not hold lease {self._namespace}/{self._name}: nothing was written")

    @asynccontextmanager
    async def while_leading(self) -> AsyncIterator[None]:
        """The body is one act: begun only by a leader, and cut off when its time ends. Raises NotLeading."""
        self.confirm()
        assert self._held_until is not None
        try:
            # Whatever waits inside, for an answer or to send again, must not outlast the lease.
            async with asyncio.timeout(self._held_until - self._clock.monotonic()):
                yield
        except TimeoutError:
            raise NotLeading(f"{self.identity}: the lease ended before the answer came: outcome unknown") from None

    async def acquire(self) -> None:
        """Until this process leads."""
        while True:
            try:
                if await self._try_to_lead():
                    self._log.info("leading", transitions=self._transitions)
                    return
            except StoreError as error:
                self._log.warning("lease not read or written, trying again", error=str(error))
            await self._clock.sleep(self._times.retry * (1 + self._random() / 2))

    async def hold(self) -> None:
        """Renews until the lease is lost, which is how it returns. What runs under it must have stopped acting then."""
        while self.is_leader:
            await self._clock.sleep(self._times.retry)
            try:
                async with self.while_leading():
                    await self._renew()
            except NotLeading:
                break
            except (Conflict, NotFound):
                await self._look_whether_ours()
            except StoreError as error:
                self._log.warning("lease not renewed, trying again", error=str(error))
        self._held_until = None
        self._log.warning("lease lost")

    async def release(self) -> None:
        """Lets another lead at once. What it cannot tell the server ends by itself."""
        if not self.is_leader:
            return
        self._held_until = None
        try:
            record = await self._store.get(LEASE, self._name, self._namespace)
            if self._is_ours(record):
                fields = {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._write(fields, version_of(record))
        except StoreError as error:
            self._log.warning("lease not released", error=str(error))

    async def _try_to_lead(self) -> bool:
        sent = self._clock.monotonic()
        try:
            record = await self._store.get(LEASE, self._name, self._namespace)
        except NotFound:
            try:
                await self._store.create(LEASE, self._new_record(), self._namespace)
            except AlreadyExists:
                return False
            self._leads(sent, transitions=0)
            return True
        spec = record.get("spec") or {}
        if self._may_still_act(spec, version_of(record)):
            return False
        transitions = int(spec.get("leaseTransitions", 0)) + 1
        sent = self._clock.monotonic()
        try:
            await self._write(self._term(transitions), version_of(record))
        except Conflict:
            return False
        self._leads(sent, transitions)
        return True

    def _may_still_act(self, spec: dict[str, Any], version: str) -> bool:
        """Whether a holder may still act. A record under our own name is of an earlier life, and no different."""
        if not spec.get("holderIdentity"):
            return False
        now = self._clock.monotonic()
        if self._seen is None or self._seen[0] != version:
            self._seen = version, now
        seconds = max(float(spec.get("leaseDurationSeconds", 0)), self._times.lease)
        return now < self._seen[1] + seconds

    async def _renew(self) -> None:
        """Raises Conflict when somebody else wrote the record."""
        sent = self._clock.monotonic()
        record = await self._store.get(LEASE, self._name, self._namespace)
        if not self._is_ours(record):
            raise Conflict("the lease changed hands")
        await self._write({"renewTime": to_micro_time(self._clock.wall())}, version_of(record))
        if self.is_leader:
            self._leads(sent, self._transitions)

    async def _look_whether_ours(self) -> None:
        """A conflict may be a renewal of our own whose answer was lost; another holder or term ends this one."""
        try:
            record = await self._store.get(LEASE, self._name, self._namespace)
        except NotFound:
            self._held_until = None
        except StoreError:
            return
        else:
            if not self._is_ours(record):
                self._held_until = None

    def _is_ours(self, record: Object) -> bool:
        spec = record.get("spec") or {}
        same = spec.get("holderIdentity") == self.identity
        return same and int(spec.get("leaseTransitions", 0)) == self._transitions

    def _leads(self, sent: float, transitions: int) -> None:
        self._held_until, self._transitions, self._seen = sent + self._times.renew, transitions, None

    def _term(self, transitions: int) -> dict[str, Any]:
        now = to_micro_time(self._clock.wall())
        return {
            "holderIdentity": self.identity,
            # Whole seconds, and never less than what others must wait.
            "leaseDurationSeconds": max(1, -int(-self._times.lease // 1)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _new_record(self) -> Object:
        meta = {"name": self._name, "namespace": self._namespace}
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": self._term(0)}

    async def _write(self, spec: dict[str, Any], version: str) -> None:
        await self._store.patch(LEASE, self._name, self._namespace, fields={"spec": spec}, version=version)
