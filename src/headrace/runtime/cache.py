"""The informer cache: every object of a kind as the watch last told it. Readers must treat what they get as immutable.

The state is a little behind the store; a write made from it carries the version it was made from.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from structlog.typing import FilteringBoundLogger

from headrace.api.kinds import Kind
from headrace.api.limits import LIST_PAGE
from headrace.api.objects import Object, key_of, metadata, uid_of, version_of
from headrace.runtime.backoff import Backoff
from headrace.runtime.clock import Clock
from headrace.runtime.views import Views
from headrace.store.protocol import Gone, Store, StoreError, WatchEvent

V = TypeVar("V")
Handler = Callable[[Object | None, Object | None], None]
"""Told (before, after) of each change; `before` is None for a new object, `after` for one that is gone."""

RECENT_VERSIONS = 10_000
RETRY_FIRST_SECONDS, RETRY_LONGEST_SECONDS = 0.1, 10.0


@dataclass(slots=True, eq=False)
class _Awaited:
    """A write of ours that the watch has not told yet."""

    version: str
    uid: str
    deleted: bool
    lists: int  # how many lists had been started when the write was answered
    call: Callable[[], None]


@dataclass(slots=True, eq=False)
class _Owed:
    """A handler failed about an object. `before`: what it was last told of it without failing."""

    before: Object | None
    timer: asyncio.TimerHandle


@dataclass(slots=True, eq=False)
class _Listener:
    handler: Handler
    owed: dict[str, _Owed] = field(default_factory=dict)


class Informer:
    """One kind, listed and watched. Index functions and handlers must not wait.

    What they raise about one object is logged and concerns that object alone: a handler is told of it again, with
    growing delay and from where it last heard of it; an index function is pure, so the object is in no such index until
    it changes. A fault of the informer itself is raised by `run`: nobody may go on with a cache that is wrong.

    `ordered`: whether resourceVersions of this home may be compared as numbers (ours: one counter, so yes).
    """

    def __init__(
        self,
        store: Store,
        kind: Kind,
        *,
        clock: Clock,
        random: Callable[[], float],
        log: FilteringBoundLogger,
        ordered: bool = True,
        labels: str = "",
        fields: str = "",
    ) -> None:
        self.kind = kind
        self._store, self._clock, self._ordered = store, clock, ordered
        self._labels, self._fields = labels, fields
        self._backoff = Backoff(random, RETRY_FIRST_SECONDS, RETRY_LONGEST_SECONDS)
        self._log = log.bind(informer=kind.resource)
        self._objects: dict[str, Object] = {}
        self._indexers: dict[str, Callable[[Object], Iterable[str]]] = {}
        self._indexes: dict[str, dict[str, dict[str, None]]] = {}
        self._views: dict[type, Views[Any]] = {}
        self._listeners: list[_Listener] = []
        self._failures = Backoff(random)
        self._ended = False
        self._awaited: dict[str, list[_Awaited]] = {}
        self._recent: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._revision = ""
        self._lists_started = self._lists_done = 0
        self._synced = asyncio.Event()

    # What readers see

    def get(self, key: str) -> Object | None:
        """By `namespace/name`, or `name` for cluster-scoped kinds."""
        return self._objects.get(key)

    def __iter__(self) -> Iterator[Object]:
        return iter(tuple(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def indexed(self, index: str, value: str) -> list[Object]:
        """The objects for which the index function named this value, in the order they were first seen."""
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def views(self, type: type[V]) -> Views[V]:
        """The shared memo of views of this type: `informer.views(PodView)(obj)`."""
        return self._views.setdefault(type, Views(type))

    @property
    def revision(self) -> str:
        """The last revision that the watch told of; within a handler, that of the change itself. Empty at first."""
        return self._revision

    @property
    def is_synced(self) -> bool:
        """Whether the first list is complete: before that, absence means nothing."""
        return self._synced.is_set()

    async def wait_until_synced(self) -> None:
        await self._synced.wait()

    # What is arranged before it runs

    def add_index(self, name: str, values: Callable[[Object], Iterable[str]]) -> None:
        """Index objects by the values the function names for each. Adding one that is there already changes nothing."""
        if name in self._indexers:
            return
        self._indexers[name] = values
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._index(name, key, None, obj)

    def subscribe(self, handler: Handler) -> None:
        """The handler is told of every object that is known already as new, then of each change."""
        listener = _Listener(handler)
        self._listeners.append(listener)
        for key, obj in tuple(self._objects.items()):
            self._tell(listener, key, None, obj)

    # Waiting for one's own writes

    def call_when_seen(self, written: Object, call: Callable[[], None], *, deleted: bool = False) -> bool:
        """Call back once the cache is at least as new as this answer of the store; True if it is so already.

        After a delete (`deleted`) it is enough that the object is gone or marked.
        """
        key = key_of(written)
        awaited = _Awaited(version_of(written), uid_of(written), deleted, self._lists_started, call)
        if self._ended or self._is_seen(key, awaited):
            return True
        self._awaited.setdefault(key, []).append(awaited)
        return False

    def _is_seen(self, key: str, awaited: _Awaited) -> bool:
        current = self._objects.get(key)
        if awaited.deleted and (
            current is None or uid_of(current) != awaited.uid or metadata(current).get("deletionTimestamp")
        ):
            return True
        if self._lists_done > awaited.lists:
            return True
        if self._ordered:
            return bool(self._revision) and int(self._revision) >= int(awaited.version or 0)
        return (key, awaited.version) in self._recent or (
            current is not None and version_of(current) == awaited.version
        )

    def _tell_waiting(self, key: str) -> None:
        waiting = self._awaited.pop(key, None)
        if waiting is None:
            return
        still = [awaited for awaited in waiting if not self._is_seen(key, awaited)]
        if still:
            self._awaited[key] = still
        for awaited in waiting:
            if awaited not in still:
                awaited.call()

    # List and watch

    async def run(self) -> None:
        """Until cancelled. Whatever ends the watch, it goes on where it was; after Gone with a new list.

        Each time that ends without a single event doubles the pause before the next.
        """
        try:
            while True:
                try:
                    if not self._revision:
                        await self._list()
                    await self._watch()
                except Gone:
                    self._revision = ""
                except StoreError as error:
                    self._log.warning("watch failed", error=str(error))
                await self._clock.sleep(self._backoff.failed(""))
        finally:
            for owed in [owed for listener in self._listeners for owed in listener.owed.values()]:
                owed.timer.cancel()

    def end(self) -> None:
        """The kind is served no more: whoever waits for a write of its own to be seen goes on."""
        self._ended = True
        waiting, self._awaited = self._awaited, {}
        for awaited in [each for several in waiting.values() for each in several]:
            awaited.call()

    async def _list(self) -> None:
        self._lists_started += 1
        number = self._lists_started
        found: dict[str, Object] = {}
        resume = ""
        while True:
            page = await self._store.list(
                self.kind, labels=self._labels, fields=self._fields, limit=LIST_PAGE, resume=resume
            )
            found.update((key_of(obj), obj) for obj in page.items)
            resume = page.resume
            if not resume:
                break
        self._revision = page.revision
        for key in [key for key in self._objects if key not in found]:
            self._change(key, None)
        for key, obj in found.items():
            known = self._objects.get(key)
            if known is None or version_of(known) != version_of(obj) or uid_of(known) != uid_of(obj):
                self._change(key, obj)
        self._lists_done = number
        for key in tuple(self._awaited):
            self._tell_waiting(key)
        self._synced.set()

    async def _watch(self) -> None:
        stream = self._store.watch(self.kind, since=self._revision, labels=self._labels, fields=self._fields)
        try:
            async for event in stream:
                self._apply(event)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _apply(self, event: WatchEvent) -> None:
        obj, key = event.object, key_of(event.object)
        self._backoff.succeeded("")
        self._revision = version_of(obj)
        if event.type == "BOOKMARK":
            for waiting in tuple(self._awaited):
                self._tell_waiting(waiting)
            return
        if not self._ordered:
            self._recent[key, version_of(obj)] = None
            if len(self._recent) > RECENT_VERSIONS:
                self._recent.popitem(last=False)
        self._change(key, None if event.type == "DELETED" else obj)
        self._tell_waiting(key)

    def _change(self, key: str, after: Object | None) -> None:
        before = self._objects.get(key)
        if before is None and after is None:
            return
        for name in self._indexers:
            self._index(name, key, before, after)
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = after
        if before is not None and (after is None or uid_of(after) != uid_of(before)):
            for views in self._views.values():
                views.forget(uid_of(before))
        for listener in self._listeners:
            self._tell(listener, key, before, after)

    def _tell(self, listener: _Listener, key: str, before: Object | None, after: Object | None) -> None:
        owed = listener.owed.pop(key, None) if listener.owed else None
        if owed is not None:
            owed.timer.cancel()
            before = owed.before
        try:
            if before is not None or after is not None:
                listener.handler(before, after)
        except Exception as error:  # a fault about one object must not stop the others
            name = getattr(listener.handler, "__qualname__", "")
            delay = self._failures.failed(f"{name} {key}")
            timer = asyncio.get_running_loop().call_later(delay, self._tell_again, listener, key)
            listener.owed[key] = _Owed(before, timer)
            self._log.error("change not handled", key=key, handler=name, retry_seconds=round(delay, 3), exc_info=error)
        else:
            if owed is not None:
                self._failures.succeeded(f"{getattr(listener.handler, '__qualname__', '')} {key}")

    def _tell_again(self, listener: _Listener, key: str) -> None:
        self._tell(listener, key, None, self._objects.get(key))

    def _values(self, name: str, key: str, obj: Object | None, told: bool = False) -> tuple[str, ...]:
        if obj is None:
            return ()
        try:
            found = tuple(self._indexers[name](obj))
            hash(found)  # what cannot be a key of an index shows here, and not halfway through its change
            return found
        except Exception as error:
            if not told:
                self._log.error("not indexed until it changes", key=key, index=name, exc_info=error)
            return ()

    def _index(self, name: str, key: str, before: Object | None, after: Object | None) -> None:
        index = self._indexes[name]
        old, new = self._values(name, key, before, told=True), self._values(name, key, after)
        if old == new:
            return
        for value in set(old).difference(new):
            keys = index[value]
            del keys[key]
            if not keys:
                del index[value]
        for value in set(new).difference(old):
            index.setdefault(value, {})[key] = None


class Informers:
    """The shared informers of one process: one for each kind (and selector), however many controllers read it."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        random: Callable[[], float],
        log: FilteringBoundLogger,
        ordered: bool = True,
    ) -> None:
        self._store, self._clock, self._random, self._log, self._ordered = store, clock, random, log, ordered
        self._informers: dict[tuple[Kind, str, str], Informer] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[tuple[Kind, str, str], asyncio.Task[None]] = {}

    def of(self, kind: Kind, *, labels: str = "", fields: str = "") -> Informer:
        """The shared one; made, and started if the others run already, when nobody asked for it before."""
        key = (kind, labels, fields)
        informer = self._informers.get(key)
        if informer is None:
            informer = self._informers[key] = Informer(
                self._store,
                kind,
                clock=self._clock,
                random=self._random,
                log=self._log,
                ordered=self._ordered,
                labels=labels,
                fields=fields,
            )
            if self._group is not None:
                self._start(self._group, key)
        return informer

    def forget(self, kind: Kind) -> None:
        """The kind is served no more: nobody may use its informers from here on."""
        for key in [key for key in self._informers if key[0] == kind]:
            self._informers.pop(key).end()
            task = self._tasks.pop(key, None)
            if task is not None:
                task.cancel()

    async def wait_until_synced(self) -> None:
        for informer in tuple(self._informers.values()):
            await informer.wait_until_synced()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for key in self._informers:
                self._start(group, key)
            await asyncio.Event().wait()  # kinds may come later

    def _start(self, group: asyncio.TaskGroup, key: tuple[Kind, str, str]) -> None:
        self._tasks[key] = group.create_task(self._informers[key].run(), name=f"informer {key[0].resource}")
