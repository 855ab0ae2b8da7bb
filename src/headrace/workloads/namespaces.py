"""Runs the plan for namespaces that are being deleted. Every namespaced kind that is served must be named to it."""

from collections.abc import Callable, Iterable, Sequence

from headrace.api.kinds import NAMESPACE, Kind
from headrace.api.limits import LIST_PAGE
from headrace.api.objects import Object, metadata, name_of, namespace_of, uid_of
from headrace.runtime.actions import Action
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused, Store
from headrace.workloads.plan.namespaces import Content, Seen, plan


class NamespaceDeletion:
    """A key is a namespace's name. `kinds` answers every kind that is served now; changes of `informed` are heard of.

    Kinds whose caches are wanted by others anyway should be among `informed`: the rest is looked at now and then.
    """

    name = "namespace-deletion"

    def __init__(
        self, informers: Informers, store: Store, kinds: Callable[[], Iterable[Kind]], informed: Iterable[Kind]
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._namespaces = informers.of(NAMESPACE)
        self.sources: Sequence[Source] = (
            Source(self._namespaces, _ending),
            *(Source(informers.of(kind), self._content_gone) for kind in informed if kind.namespaced),
        )

    def _content_gone(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if after is not None or before is None:
            return ()
        return _ending(None, self._namespaces.get(namespace_of(before)))

    async def observe(self, key: str) -> Seen | None:
        namespace = self._namespaces.get(key)
        if namespace is None or not metadata(namespace).get("deletionTimestamp"):
            return None
        content: list[Content] = []
        counts: dict[str, int] = {}
        for kind in [kind for kind in self._kinds() if kind.namespaced]:
            found, count = await self._left(kind, key)
            if count:
                counts[kind.resource] = count
                content += found
        return Seen(namespace, tuple(content), counts)

    async def _left(self, kind: Kind, namespace: str) -> tuple[list[Content], int]:
        """A page of what is left, and how many there are. Pages of which all is going must not hide the rest."""
        page = await self._store.list(kind, namespace, limit=LIST_PAGE)
        found, count = [_content(kind, each) for each in page.items], len(page.items) + (page.remaining or 0)
        while page.resume and all(each.deleting for each in found):
            page = await self._store.list(kind, namespace, limit=LIST_PAGE, resume=page.resume)
            found = [_content(kind, each) for each in page.items]
        return found, count

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: ending a namespace asks for no capacity, yet the ledger refused: {refusal}")


def _ending(before: Object | None, after: Object | None) -> Iterable[str]:
    return (name_of(after),) if after is not None and metadata(after).get("deletionTimestamp") else ()


def _content(kind: Kind, obj: Object) -> Content:
    meta = metadata(obj)
    return Content(
        kind, name_of(obj), uid_of(obj), bool(meta.get("deletionTimestamp")), tuple(meta.get("finalizers") or ())
    )
