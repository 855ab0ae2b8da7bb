"""Who waits for changes. They are told after the commit, from memory; one that falls too far behind is cut off."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Sequence

from headrace.api.limits import WATCH_BACKLOG_BYTES, WATCH_BACKLOG_EVENTS
from headrace.store.protocol import Gone, Unavailable
from headrace.store.reader import Reader
from headrace.store.rows import Change, Offer

BOOKMARK_EVERY = 1_000
"""Revisions after which those watchers get a bookmark that saw none of them: far fewer than history keeps."""


class Watcher:
    """The backlog of one reader. `told` is the revision it is complete up to.

    It is bounded in events and in bytes: who reads nothing must not keep everything that is written in memory.
    A reader with an `offer` that has taken all before and waits for more is offered changes where it stands, which
    costs a tenth of waking it.
    """

    def __init__(self, namespace: str, told: int, backlog: int, offer: Offer | None = None) -> None:
        self.namespace = namespace
        self.told = told
        self._backlog = backlog
        self._offer = offer
        self._rests = False
        self._waiting: deque[Change | int] = deque()
        self._bytes = 0  # of what waits
        self._ending: Exception | None = None
        self._wake = asyncio.Event()

    def push(self, changes: Sequence[Change]) -> None:
        """What one commit changed, in order."""
        if self._ending is not None:
            return
        told, namespace = self.told, self.namespace
        news = [each for each in changes if each.revision > told and namespace in ("", each.key.namespace)]
        if not news:
            return
        self.told = news[-1].revision
        if self._rests and self._offer is not None:
            try:
                taken = self._offer(news)
            except Exception as error:  # one reader's fault holds up neither the writers nor the other readers
                self.end(error)
                return
            if taken == len(news):
                return
            del news[:taken]
        self._rests = False
        self._bytes += sum(each.size for each in news)
        if len(self._waiting) + len(news) > self._backlog or self._bytes > WATCH_BACKLOG_BYTES:
            most = f"{self._backlog} events or {WATCH_BACKLOG_BYTES // 2**20} MiB of them"
            self.end(Gone(f"the watch is more than {most} behind: list again"))
            self._waiting.clear()
            return
        self._waiting += news
        self._wake.set()

    def bookmark(self, revision: int) -> None:
        if self._ending is not None:
            return  # what was dropped came before: nobody may resume behind it
        if self._waiting and isinstance(self._waiting[-1], int):
            self._waiting.pop()
        self.told = revision
        self._rests = False
        self._waiting.append(revision)
        self._wake.set()

    def end(self, reason: Exception) -> None:
        """After what waits already, the reader gets this error."""
        self._ending = reason
        self._rests = False
        self._wake.set()

    async def next(self) -> Change | int:
        while not self._waiting:
            if self._ending is not None:
                raise self._ending
            self._wake.clear()
            self._rests = True
            try:
                await self._wake.wait()
            finally:
                self._rests = False
        found = self._waiting.popleft()
        if not isinstance(found, int):
            self._bytes -= found.size
        return found


class Watchers:
    """All watches on one file. Everything here runs on the event loop."""

    def __init__(self, reader: Reader, revision: int, backlog: int = WATCH_BACKLOG_EVENTS) -> None:
        self.published = revision
        self._bookmarked = revision
        self._reader = reader
        self._backlog = backlog
        # In the order in which they began, so that a history can be repeated: a set's order is that of addresses.
        self._by_resource: defaultdict[str, dict[Watcher, None]] = defaultdict(dict)

    async def watch(
        self, resource: str, namespace: str, since: int, offer: Offer | None = None
    ) -> AsyncGenerator[Change | int, None]:
        """History from the file up to what is published now; from there on from memory."""
        until = self.published
        live = Watcher(namespace, max(since, until), self._backlog, offer)
        self._by_resource[resource][live] = None
        try:
            while since < until:
                changes, since = self._reader.replay(resource, namespace, since, until)
                for change in changes:
                    yield change
                await asyncio.sleep(0)
            yield since
            while True:
                yield await live.next()
        finally:
            self._by_resource[resource].pop(live, None)

    def publish(self, changes: Sequence[Change], revision: int) -> None:
        """Tell of one commit."""
        self.published = revision
        by_resource: dict[str, list[Change]] = {}
        for change in changes:
            by_resource.setdefault(change.key.resource, []).append(change)
        for resource, of_resource in by_resource.items():
            for watcher in self._by_resource.get(resource, ()):
                watcher.push(of_resource)
        if revision - self._bookmarked >= BOOKMARK_EVERY:
            before, self._bookmarked = self._bookmarked, revision
            for watchers in self._by_resource.values():
                for watcher in watchers:
                    if watcher.told <= before:
                        watcher.bookmark(revision)

    def remind(self) -> None:
        """Tell every watcher that has seen nothing for a while how far it is: in its queue, so never too far."""
        for watchers in self._by_resource.values():
            for watcher in watchers:
                if watcher.told < self.published:
                    watcher.bookmark(self.published)

    def close(self) -> None:
        for watchers in self._by_resource.values():
            for watcher in watchers:
                watcher.end(Unavailable("the store is closing"))
