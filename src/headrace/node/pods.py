"""The Pods of this node, one worker each, told by the watch; and what runs here that the watch knows nothing of.

A Pod is its uid: a new object under an old name waits for nobody and disturbs nobody.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Protocol, runtime_checkable

import msgspec

from headrace.api.objects import Object, uid_of, version_of
from headrace.node.containers import pod_uid_of
from headrace.node.device_health import DeviceID
from headrace.node.pod import Container, Pod, PodSpec, view
from headrace.node.pod_worker import Means, PodWorker
from headrace.node.runtimes.protocol import ApplyFailed, Limits, Unreadable

STRAY_SECONDS = 10.0  # between two looks
ORPHAN_GRACE_SECONDS = 10
AUDIT_SECONDS = 60.0


@runtime_checkable
class FindsStrays(Protocol):
    """A runtime that sees more than it has records of."""

    async def strays(self, wanted: Collection[str]) -> Mapping[str, Limits]:
        """Ids of what runs beyond those wanted, and its limits."""
        ...


class Pods:
    """`observe` is the handler of an informer whose revision is `revision`. The workers are tasks of `tasks`."""

    def __init__(self, means: Means, tasks: asyncio.TaskGroup, revision: Callable[[], str]) -> None:
        self._means, self._tasks, self._revision = means, tasks, revision
        self._workers: dict[str, PodWorker] = {}
        self._ended: set[str] = set()  # deleted by this agent; the watch, which may be behind, has not told it yet
        self._leaving: set[str] = set()  # uids of Pods whose objects are gone
        self._orphans: set[str] = set()  # those among them whose objects this agent has never seen
        self._strays: dict[str, Limits] | None = None
        self._orphans_known = False
        self._to_confirm = ""
        self._audit_now = asyncio.Event()

    def observe(self, before: Object | None, after: Object | None) -> None:
        if before is not None and (after is None or uid_of(before) != uid_of(after)):
            self._lost(uid_of(before))
        if after is None:
            return
        try:
            pod = view(after)
        except msgspec.ValidationError as error:
            self._means.log.warning("not a Pod", uid=uid_of(after), version=version_of(after), error=str(error))
            return
        if pod.uid in self._ended:
            return
        worker = self._workers.get(pod.uid)
        if worker is None:
            self._begin(PodWorker(pod, self._means))
        else:
            worker.offer(pod)

    def changed(self, pod_uid: str) -> None:
        """Containers of this Pod started or ended."""
        worker = self._workers.get(pod_uid)
        if worker is not None:
            worker.wake()

    def hurry(self) -> None:
        """A driver came or went: whoever waits for one looks again."""
        self._audit_now.set()
        for worker in self._workers.values():
            worker.hurry()

    def hurry_one(self, pod_uid: str) -> None:
        """What this Pod waited for is there."""
        if worker := self._workers.get(pod_uid):
            worker.hurry()

    def ailing(self, devices: Collection[DeviceID]) -> None:
        """The health of these devices is another: their Pods tell it."""
        for uid in self._means.devices.users_of(devices) if devices else ():
            self.changed(uid)

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """The Pod of this name that is not about to vanish."""
        for worker in self._workers.values():
            if (worker.pod.namespace, worker.pod.name) == (namespace, name) and not worker.is_gone:
                return worker
        return None

    def get(self, pod_uid: str) -> PodWorker | None:
        return self._workers.get(pod_uid)

    def take_orphans(self) -> None:
        """Call once the first list is complete: end what runs here for Pods that exist no more."""
        for uid in self._means.states.pods():
            if uid not in self._workers:
                worker = PodWorker(_orphan(uid, self._means), self._means)
                worker.gone()
                self._leaving.add(uid)
                self._orphans.add(uid)
                self._begin(worker)
        self._to_confirm = self._to_confirm or self._revision()
        self._orphans_known = True

    async def audit(self) -> None:
        """Until cancelled: release devices of Pods that are gone, at once, when drivers come, and every minute."""
        while True:
            self._audit_now.clear()
            try:
                for failure in await self._means.devices.audit(self._workers.keys()):
                    self._means.log.warning("devices not released", error=failure)
            except Exception:
                self._means.log.exception("devices not released")
            with suppress(TimeoutError):
                async with asyncio.timeout(AUDIT_SECONDS):
                    await self._audit_now.wait()

    def confirmed(self) -> str | None:
        """The revision of the last deletion by others (or of the first list), once nothing deleted runs here."""
        return self._to_confirm if self._orphans_known and not self._leaving else None

    def strays(self) -> dict[str, dict[str, int]] | None:
        """What runs here for no object, with what it is limited to, or asks for; None before the first look. What was
        deleted under our eyes is not among it: that is charged until it is confirmed."""
        return None if self._strays is None else {id: _charge(limits) for id, limits in self._strays.items()}

    async def find_strays(self) -> None:
        """Until cancelled: see what nobody owns, and end what nobody recorded either."""
        unrecorded: set[str] = set()
        while True:
            try:
                unrecorded = await self._look_for_strays(unrecorded)
            except Exception:  # what was charged stays charged until it can be seen again
                self._means.log.exception("looking for strays again")
            await self._means.clock.sleep(STRAY_SECONDS)

    async def _look_for_strays(self, unrecorded: set[str]) -> set[str]:
        """One look; takes and answers ids that run without a record."""
        found: dict[str, Limits] = {}
        rest: dict[str, Limits] = {}
        for uid in self._means.states.pods():
            if uid in self._orphans or uid not in self._workers:
                found |= await self._limits_of(uid)
        runtime = self._means.runtime
        if isinstance(runtime, FindsStrays):
            known = [state.id for uid in self._means.states.pods() for state in self._means.states.of(uid)]
            seen = await runtime.strays(known)
            rest = {id: limits for id, limits in seen.items() if not self._is_known(id)}
            for id in unrecorded & rest.keys():  # seen twice: not a start under way
                self._means.log.warning("ending processes without a record", container=id)
                await runtime.kill(id)
        self._strays = found | rest
        return set(rest)

    def _is_known(self, id: str) -> bool:
        return any(state.id == id for state in self._means.states.of(pod_uid_of(id)))

    async def _limits_of(self, uid: str) -> dict[str, Limits]:
        found: dict[str, Limits] = {}
        for state in self._means.states.of(uid):
            if state.state == "running":
                try:
                    found[state.id] = await self._means.runtime.read(state.id)
                except Unreadable:  # it is there, with what it had when that could be read
                    found[state.id] = (self._strays or {}).get(state.id, Limits())
                except ApplyFailed:  # it has ended meanwhile
                    continue
        return found

    def _lost(self, uid: str) -> None:
        self._ended.discard(uid)
        worker = self._workers.get(uid)
        if worker is None or not worker.confirmed:
            self._to_confirm = self._revision()
        if worker is not None and not worker.is_finished:
            self._leaving.add(uid)
            worker.gone()

    def _begin(self, worker: PodWorker) -> None:
        self._workers[worker.pod.uid] = worker
        self._tasks.create_task(self._run(worker), name=f"pod {worker.pod.key}")

    async def _run(self, worker: PodWorker) -> None:
        await worker.run()
        uid = worker.pod.uid
        self._leaving.discard(uid)
        self._orphans.discard(uid)
        if not worker.is_gone:
            self._ended.add(uid)
        if self._workers.get(uid) is worker:
            del self._workers[uid]


def _charge(limits: Limits) -> dict[str, int]:
    return {"cpu": limits.cpu_milli or limits.cpu_shares_milli or 0, "memory": limits.memory_bytes or 0}


def _orphan(uid: str, means: Means) -> Pod:
    """As much of a Pod as its running containers tell."""
    containers = [Container(name=name) for name in sorted({state.container for state in means.states.of(uid)})]
    spec = PodSpec(containers=containers, termination_grace_period_seconds=ORPHAN_GRACE_SECONDS)
    return Pod(
        uid=uid,
        namespace="",
        name=uid,
        version=0,
        generation=0,
        deleted=False,
        deletion_grace_seconds=None,
        spec=spec,
        status={},
        object={"metadata": {"uid": uid, "name": uid}},
    )
