"""LocalStore: the Store over rows, with all that makes an object an object. HTTP is a thin shell around it."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Literal, cast

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.api.objects import Fields, Object
from headrace.objects import deletion as deleting
from headrace.objects import patching, reading, subresources, writing
from headrace.objects.bodies import clone, decode
from headrace.objects.builtin import built_in_registry
from headrace.objects.crd import cleanup, establish
from headrace.objects.home import Caller, Home
from headrace.objects.registry import Registry, Served
from headrace.objects.turns import Turns
from headrace.store.protocol import AlreadyExists, Deletion, EventType, Listing, NotFound, WatchEvent
from headrace.store.rows import Rows

PatchType = Literal["merge", "json", "strategic"]
Validation = Literal["Strict", "Warn", "Ignore"]

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
NO_DELETION = Deletion()
Bodies = list[bytes]


class LocalStore:
    """Implements `headrace.store.protocol.Store`; the methods below it are what HTTP needs beyond that."""

    def __init__(
        self,
        rows: Rows,
        *,
        wall: Callable[[], float],
        new_uid: Callable[[], str],
        caller: Caller,
        registry: Registry | None = None,
    ) -> None:
        """`wall`: seconds since the epoch. `new_uid`: a fresh UUID. Passed in so that histories can be simulated."""
        self._home = Home(rows, built_in_registry() if registry is None else registry, wall, new_uid)
        establish.load(self._home.registry, rows)
        self._caller = caller

    def acting_as(self, caller: Caller) -> "LocalStore":
        """The same store, writing as somebody else."""
        other = LocalStore.__new__(LocalStore)
        other._home, other._caller = self._home, caller
        return other

    @property
    def registry(self) -> Registry:
        return self._home.registry

    @property
    def turns(self) -> Turns:
        """For work on what was read that takes long."""
        return self._home.turns

    @property
    def rows(self) -> Rows:
        return self._home.rows

    # ------------------------------------------------------------------------------------------------ the Store

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return decode(await self.get_body(kind, name, namespace))

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, resume: str = ""
    ) -> Listing:
        bodies, revision, rest, remaining = await self.list_bodies(
            kind, namespace, labels=labels, fields=fields, limit=limit, resume=resume
        )
        return Listing([decode(body) for body in bodies], revision, rest, remaining)

    async def watch(
        self, kind: Kind, namespace: str = "", *, since: str = "", labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        bodies = self.watch_bodies(kind, namespace, since=since, labels=labels, fields=fields)
        async with aclosing(bodies) as events:
            async for type_, body in events:
                yield WatchEvent(cast(EventType, type_), decode(body))

    async def create(self, kind: Kind, obj: Fields, namespace: str = "", *, dry_run: bool = False) -> Object:
        caller = writing.as_dry_run(self._caller, dry_run)
        return await writing.create(self._home, self._home.served(kind), clone(obj), namespace, caller)

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        fields: Fields,
        version: str | None = None,
        subresource: str | None = None,
        strategic: bool = False,
        dry_run: bool = False,
    ) -> Object:
        patch = patching.Patch("strategic" if strategic else "merge", clone(fields))
        caller = writing.as_dry_run(self._caller, dry_run)
        served = self._home.served(kind)
        changed = await subresources.patch(
            self._home, served, name, namespace, patch, subresource or "", caller, version=version
        )
        await self._settle_change(served)
        return changed

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Fields) -> Object:
        served = self._home.served(kind)
        return await subresources.create(self._home, served, name, namespace, subresource, clone(body), self._caller)

    async def delete(self, kind: Kind, name: str, namespace: str = "", deletion: Deletion = NO_DELETION) -> Object:
        served = self._home.served(kind)
        obj, _ = await deleting.delete(self._home, served, name, namespace, deletion, self._caller)
        if not (deletion.dry_run or self._caller.dry_run):
            await self._settle(served, name)
        return obj

    async def _settle_change(self, served: Served) -> None:
        """A change that took the last finalizer away is a deletion too."""
        if served.ending and not self._caller.dry_run:
            await cleanup.settle(self._home, served.stored.resource, self._caller)

    async def _settle(self, served: Served, name: str) -> None:
        """A definition goes when the last of its objects is gone: what may have been the last step ends here."""
        if served.stored == kinds.CUSTOM_RESOURCE_DEFINITION:
            await cleanup.remove_objects(self._home, name, self._caller)
        else:
            await self._settle_change(served)

    # ---------------------------------------------------------------------------------------- beyond it, for HTTP

    async def get_body(self, kind: Kind, name: str, namespace: str = "") -> bytes:
        """The stored JSON, undecoded."""
        return reading.get_body(self._home, self._home.served(kind), name, namespace)

    async def get_subresource(self, kind: Kind, name: str, namespace: str, subresource: str) -> Object:
        """What GET of `status`, `resize` or `scale` shows."""
        return subresources.get(self._home, self._home.served(kind), name, namespace, subresource)

    async def list_bodies(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        resume: str = "",
        at: int = 0,
    ) -> tuple[Bodies, str, str, int | None]:
        """Bodies, revision, resume token, remaining count: what a list answer is spliced from.

        `at`: the revision to list, 0 for the newest. Raises Gone when it is compacted.
        """
        served = self._home.served(kind)
        return await reading.list_bodies(self._home, served, namespace, labels, fields, limit, resume, at)

    def watch_bodies(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        since: str = "",
        labels: str = "",
        fields: str = "",
        take: reading.Take | None = None,
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """(event type, body) pairs, as `watch`. What is wrong with the request is raised here, before any event.

        `take` gets what a commit changed while the reader waits for more; where it returns False, the reader gets it.
        """
        return reading.watch_bodies(self._home, self._home.served(kind), namespace, since, labels, fields, take)

    def post(self, kind: Kind, obj: Object, namespace: str = "") -> Awaitable[Object]:
        """As `create`, of an object that is plain JSON and nobody else's: it is changed and kept."""
        return writing.create(self._home, self._home.served(kind), obj, namespace, self._caller)

    async def replace(
        self, kind: Kind, name: str, namespace: str, obj: Fields, *, subresource: str | None = None
    ) -> Object:
        """PUT: the whole object, or its subresource; metadata.resourceVersion in it is a precondition."""
        served = self._home.served(kind)
        changed = await subresources.replace(
            self._home, served, name, namespace, clone(obj), subresource or "", self._caller
        )
        await self._settle_change(served)
        return changed

    async def patch_document(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        patch_type: PatchType,
        document: object,
        *,
        subresource: str | None = None,
    ) -> Object:
        """PATCH with any of three documents; retried while others write in between."""
        patch = patching.Patch(patch_type, document)
        served = self._home.served(kind)
        changed = await subresources.patch(self._home, served, name, namespace, patch, subresource or "", self._caller)
        await self._settle_change(served)
        return changed

    async def delete_collection(
        self, kind: Kind, namespace: str, *, labels: str, fields: str, deletion: Deletion
    ) -> Listing:
        """Delete each object of a list; what others deleted meanwhile is skipped."""
        deleted = []
        bodies, revision, _, _ = await self.list_bodies(kind, namespace, labels=labels, fields=fields)
        for body in bodies:
            meta = decode(body)["metadata"]
            with contextlib.suppress(NotFound):
                deleted.append(await self.delete(kind, meta["name"], meta.get("namespace", ""), deletion))
        return Listing(deleted, revision)

    async def bootstrap(self) -> None:
        """Once at every start: the namespaces that are always there, and removals that were cut short."""
        for name in NAMESPACES:
            with contextlib.suppress(AlreadyExists):
                await self.create(kinds.NAMESPACE, {"metadata": {"name": name}})
        for name in cleanup.ending(self._home):
            await cleanup.remove_objects(self._home, name, self._caller)


__all__ = ["Caller", "LocalStore", "PatchType", "Validation", "WatchEvent"]
