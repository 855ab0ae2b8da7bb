"""A Store that only a leader may write through: each write is preceded by a look at the lease, each read is free.

Between that look and the server lies only the sending. A write that is paused exactly there is stopped by what every
write of a controller carries anyway: the version it was decided at, or a computed name.
"""

from collections.abc import AsyncIterator

from headrace.api.kinds import Kind
from headrace.api.objects import Fields, Object
from headrace.runtime.leader import Election
from headrace.store.protocol import Deletion, Listing, Store, WatchEvent

NO_DELETION = Deletion()


class FencedStore:
    """Implements `headrace.store.protocol.Store`. Writes raise NotLeading when the lease is not held."""

    def __init__(self, store: Store, election: Election) -> None:
        self._store, self._election = store, election

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return await self._store.get(kind, name, namespace)

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, resume: str = ""
    ) -> Listing:
        return await self._store.list(kind, namespace, labels=labels, fields=fields, limit=limit, resume=resume)

    def watch(
        self, kind: Kind, namespace: str = "", *, since: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        return self._store.watch(kind, namespace, since=since, labels=labels, fields=fields)

    async def create(self, kind: Kind, obj: Fields, namespace: str = "", *, dry_run: bool = False) -> Object:
        async with self._election.while_leading():
            return await self._store.create(kind, obj, namespace, dry_run=dry_run)

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
        async with self._election.while_leading():
            return await self._store.patch(
                kind,
                name,
                namespace,
                fields=fields,
                version=version,
                subresource=subresource,
                strategic=strategic,
                dry_run=dry_run,
            )

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Fields) -> Object:
        async with self._election.while_leading():
            return await self._store.create_subresource(kind, name, namespace, subresource, body)

    async def delete(self, kind: Kind, name: str, namespace: str = "", deletion: Deletion = NO_DELETION) -> Object:
        async with self._election.while_leading():
            return await self._store.delete(kind, name, namespace, deletion)
