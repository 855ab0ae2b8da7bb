"""Removes the ResourceSlices of drivers that have left this node, after a grace period, as the kubelet does.

Only what a driver published goes (slices owned by the Node); what people applied by hand is theirs. Unlike a kubelet,
an agent that starts removes nothing at once: its drivers have the same time to register again.
"""

from collections.abc import Callable, Collection

from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import NODE, RESOURCE_SLICE
from headrace.api.objects import Object, metadata, name_of, uid_of
from headrace.runtime.clock import Clock
from headrace.store.protocol import Deletion, NotFound, Preconditions, Store, StoreError

GRACE_SECONDS = 30.0  # the kubelet's
LOOK_SECONDS = 10.0


class DriverSlices:
    """`registered`: the drivers that are here now."""

    def __init__(
        self,
        store: Store,
        node: str,
        registered: Callable[[], Collection[str]],
        *,
        clock: Clock,
        log: FilteringBoundLogger,
    ) -> None:
        self._store, self._node, self._registered = store, node, registered
        self._clock, self._log = clock, log
        self._missing: dict[str, float] = {}  # driver: since when it is seen to have slices and not to be here

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except StoreError as error:
                self._log.warning("slices of drivers that left not removed", error=str(error))
            await self._clock.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Raises StoreError."""
        try:
            node = await self._store.get(NODE, self._node)
        except NotFound:
            return
        slices = (await self._store.list(RESOURCE_SLICE, fields=f"spec.nodeName={self._node}")).items
        published = [each for each in slices if _is_owned(each, uid_of(node))]
        absent = {str(each["spec"]["driver"]) for each in published} - set(self._registered())
        now = self._clock.monotonic()
        self._missing = {driver: self._missing.get(driver, now) for driver in absent}
        for each in published:
            since = self._missing.get(str(each["spec"]["driver"]))
            if since is not None and now >= since + GRACE_SECONDS:
                await self._remove(each)

    async def _remove(self, found: Object) -> None:
        self._log.info("driver left: its slice is removed", driver=found["spec"]["driver"], slice=name_of(found))
        try:
            await self._store.delete(
                RESOURCE_SLICE, name_of(found), "", Deletion(preconditions=Preconditions(uid=uid_of(found)))
            )
        except NotFound:
            return


def _is_owned(found: Object, node_uid: str) -> bool:
    return any(owner.get("uid") == node_uid for owner in metadata(found).get("ownerReferences") or ())
