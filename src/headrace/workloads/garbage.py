"""Runs the garbage collector's plan over every kind that may own or be owned.

Absence is never believed of a cache: an owner that is not in it is asked for before what it owns is deleted.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from headrace.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from headrace.api.limits import LIST_PAGE
from headrace.api.objects import Fields, Object, key_of, metadata, name_of, namespace_of, uid_of, version_of
from headrace.runtime.actions import Action
from headrace.runtime.cache import Informer, Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import NotFound, Refused, Store
from headrace.workloads.plan.garbage import FOREGROUND, ORPHAN, Item, Owner, Seen, plan

BY_OWNER = "owner uid"


class GarbageCollector:
    """A key is `resource namespace/name`. `kinds`: every kind that is looked after; owners of others count as there."""

    name = "garbage-collector"

    def __init__(self, informers: Informers, store: Store, kinds: Iterable[Kind]) -> None:
        self._store = store
        self._informers = informers
        self._kinds: dict[str, Kind] = {}
        self._by_reference: dict[tuple[str, str], Kind] = {}
        self._caches: dict[str, Informer] = {}
        self._custom: set[Kind] = set()
        self.sources: Sequence[Source] = [self._begin(kind) for kind in kinds]

    def follow(self, custom: Callable[[], Iterable[Kind]], watch: Callable[[Source], None]) -> None:
        """Look after custom kinds too, each in one version, those of now and those that come.

        `watch` adds a source to the controller that runs this.
        """

        def changed(before: Object | None, after: Object | None) -> None:
            served = set(custom())
            for kind in sorted(self._custom - served, key=lambda each: each.resource):
                self._end(kind)
            for kind in sorted(served - self._custom, key=lambda each: each.resource):
                watch(self._begin(kind))
            self._custom = served

        self._informers.of(CUSTOM_RESOURCE_DEFINITION).subscribe(changed)

    def _begin(self, kind: Kind) -> Source:
        cache = self._informers.of(kind)
        cache.add_index(BY_OWNER, _owner_uids)
        self._kinds[kind.resource] = self._by_reference[kind.group, kind.kind] = kind
        self._caches[kind.resource] = cache
        return Source(cache, partial(self._keys, kind))

    def _end(self, kind: Kind) -> None:
        self._informers.forget(kind)
        del self._kinds[kind.resource], self._caches[kind.resource], self._by_reference[kind.group, kind.kind]

    def _keys(self, kind: Kind, before: Object | None, after: Object | None) -> Iterable[str]:
        """The object itself; its dependents when it goes or begins to; owners that it leaves or blocks no more, who may
        wait for that."""
        if after is not None and (metadata(after).get("deletionTimestamp") or not self._is_held(after)):
            yield _key(kind, key_of(after))
        if after is not None and FOREGROUND in _finalizers(after):
            yield from self._dependent_keys(uid_of(after))
        if before is None:
            return
        if after is None or uid_of(after) != uid_of(before):
            yield from self._dependent_keys(uid_of(before))
        kept = _references(after) if after is not None else ()
        for reference in _references(before):
            owner = self._kind_of(reference)
            if owner is not None and reference not in kept:
                yield _key(owner, _owner_key(owner, namespace_of(before), reference))

    def _is_held(self, obj: Object) -> bool:
        """Whether all its owners are known to be there and to stay: their end makes it looked at. Most changes are of
        such an object."""
        for reference in _references(obj):
            kind = self._kind_of(reference)
            if kind is None or (kind.namespaced and not namespace_of(obj)):
                continue  # as there
            owner = self._caches[kind.resource].get(_owner_key(kind, namespace_of(obj), reference))
            if owner is None or uid_of(owner) != reference.get("uid") or metadata(owner).get("deletionTimestamp"):
                return False
        return True

    def _dependent_keys(self, uid: str) -> Iterable[str]:
        for cache in self._caches.values():
            for dependent in cache.indexed(BY_OWNER, uid):
                yield _key(cache.kind, key_of(dependent))

    def _kind_of(self, reference: Fields) -> Kind | None:
        """Whatever version the reference names: an object is the same in all of them."""
        group = str(reference.get("apiVersion")).rpartition("/")[0]
        return self._by_reference.get((group, str(reference.get("kind"))))

    async def observe(self, key: str) -> Seen | None:
        resource, _, name = key.partition(" ")
        cache = self._caches.get(resource)
        obj = cache.get(name) if cache is not None else None
        if obj is None:
            return None
        item = _item(self._kinds[resource], obj)
        if item.deleting and (ORPHAN in item.finalizers or FOREGROUND in item.finalizers):
            return Seen(item, dependents=tuple(await self._listed_dependents(item)))
        if item.deleting or not item.references:
            return None
        owners = [await self._owner(item, reference) for reference in item.references]
        dependents = tuple(
            _item(cache.kind, each) for cache in self._caches.values() for each in cache.indexed(BY_OWNER, item.uid)
        )
        return Seen(item, tuple(owners), dependents)

    async def _owner(self, item: Item, reference: Fields) -> Owner:
        kind = self._kind_of(reference)
        if kind is None or (kind.namespaced and not item.namespace):
            return Owner.SOLID
        key = _owner_key(kind, item.namespace, reference)
        owner = self._caches[kind.resource].get(key)
        if owner is None or uid_of(owner) != reference.get("uid"):
            namespace, _, name = key.rpartition("/")
            try:
                owner = await self._store.get(kind, name, namespace)
            except NotFound:
                return Owner.ABSENT
        if uid_of(owner) != reference.get("uid"):
            return Owner.ABSENT
        deleting = bool(metadata(owner).get("deletionTimestamp"))
        return Owner.WAITING if deleting and FOREGROUND in _finalizers(owner) else Owner.SOLID

    async def _listed_dependents(self, owner: Item) -> list[Item]:
        """From the store: a dependent that the cache does not know yet must neither be lost nor left waiting."""
        found: list[Item] = []
        for kind in tuple(self._kinds.values()):  # kinds come and go while it waits
            if owner.namespace and not kind.namespaced:
                continue
            resume = ""
            while True:
                page = await self._store.list(kind, owner.namespace, limit=LIST_PAGE, resume=resume)
                found += [_item(kind, each) for each in page.items if owner.uid in _owner_uids(each)]
                resume = page.resume
                if not resume:
                    break
        return found

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: collecting garbage asks for no capacity, yet the ledger refused: {refusal}")


def _item(kind: Kind, obj: Object) -> Item:
    return Item(
        kind,
        namespace_of(obj),
        name_of(obj),
        uid_of(obj),
        version_of(obj),
        bool(metadata(obj).get("deletionTimestamp")),
        _finalizers(obj),
        tuple(_references(obj)),
    )


def _finalizers(obj: Object) -> tuple[str, ...]:
    return tuple(metadata(obj).get("finalizers") or ())


def _references(obj: Object) -> Sequence[Fields]:
    found: Sequence[Fields] = metadata(obj).get("ownerReferences") or ()
    return found


def _owner_uids(obj: Object) -> set[str]:
    return {str(each.get("uid")) for each in _references(obj)}


def _key(kind: Kind, key: str) -> str:
    return f"{kind.resource} {key}"


def _owner_key(kind: Kind, namespace: str, reference: Fields) -> str:
    """An owner lives in its dependent's namespace, or in none."""
    name = str(reference.get("name"))
    return f"{namespace}/{name}" if kind.namespaced else name
