"""Lists and watches with Kubernetes' meaning of resourceVersion; a watch is one JSON line per change.

An error after the headers are sent is an ERROR event with a Status, and the end of the stream.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import orjson

from headrace.apiserver.answers import Line, Stream
from headrace.apiserver.exchange import chunk_of
from headrace.apiserver.listing import partial_object
from headrace.apiserver.printing import Printing
from headrace.apiserver.requests import Request
from headrace.apiserver.statuses import Failure, status_of
from headrace.objects.local import LocalStore
from headrace.objects.reading import Event
from headrace.objects.registry import Served
from headrace.store.protocol import BadRequest, StoreError

WATCH_SECONDS = 1800.0  # a watch's longest life where the client names none; it resumes from its last revision
LEAST_BETWEEN_BOOKMARKS_SECONDS = 10.0  # on a busy file the store gives many; a client needs few
INITIAL_PAGE = 500
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Bodies = tuple[list[bytes], str, str, int | None]


class Watching:
    def __init__(self, store: LocalStore, printing: Printing) -> None:
        self._store = store
        self._printing = printing
        self._chunks = _Chunks()

    async def listed(self, request: Request, served: Served) -> Bodies:
        """Bodies, revision, resume token, remaining count. Raises Gone, BadRequest, or a 504 Failure for the future."""
        query = request.query
        resume = query.get("continue", "")
        return await self._store.list_bodies(
            served.kind,
            request.namespace,
            labels=query.get("labelSelector", ""),
            fields=query.get("fieldSelector", ""),
            limit=_whole_number(query, "limit"),
            resume=resume,
            at=0 if resume else self._revision(query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")),
        )

    def _revision(self, wanted: str, match: str) -> int:
        """The revision to list: the newest (0) is right for every wish but an exact one."""
        if match not in ("", "NotOlderThan", "Exact"):
            raise BadRequest(f"resourceVersionMatch: {match!r} must be NotOlderThan or Exact")
        if match and not wanted:
            raise BadRequest("resourceVersionMatch: is forbidden without resourceVersion")
        if not wanted:
            return 0
        _check_revision(wanted, self._store.rows.revision)
        if match == "Exact" and int(wanted) == 0:
            raise BadRequest("resourceVersionMatch: Exact is forbidden for resourceVersion 0")
        return int(wanted) if match == "Exact" else 0

    async def stream(self, request: Request, served: Served) -> Stream:
        """What is wrong with the request is raised here; what goes wrong later is told in the stream."""
        query = request.query
        seconds = float(_whole_number(query, "timeoutSeconds")) or WATCH_SECONDS
        fields = query.get("fieldSelector", "")
        if request.name:
            # Always: it is this name that was authorised, whatever else the selector says.
            fields = f"{fields},metadata.name={request.name}" if fields else f"metadata.name={request.name}"
        watch = _Watch(self._store, self._printing, request, served, fields, self._chunks)
        await watch.begin()
        return Stream(watch.lines(), "watch", seconds=seconds, line=watch.line)


class _Chunks:
    """What was last written to watchers: those that see changes as they are stored are all sent the same bytes."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._chunk = b""

    def of(self, events: list[Event]) -> bytes:
        if events != self._events:
            self._events, self._chunk = events, chunk_of(b"".join([_line(*event) for event in events]))
        return self._chunk


class _Watch:
    """One open watch."""

    def __init__(
        self,
        store: LocalStore,
        printing: Printing,
        request: Request,
        served: Served,
        fields: str,
        chunks: _Chunks,
    ) -> None:
        self._store = store
        self._request = request
        self._served = served
        self._fields = fields
        self._labels = request.query.get("labelSelector", "")
        self._bookmarks = request.flag("allowWatchBookmarks") and request.form != "table"
        self._form = _former(printing, request, served)
        self._chunks = chunks
        self._page_now: Bodies | None = None
        self._events: AsyncGenerator[tuple[str, bytes], None] | None = None
        self._tells_end = False
        self.line = Line()

    async def begin(self) -> None:
        """Read the state first where the client asks for it (`sendInitialEvents`) or names no revision to start at."""
        since = self._request.query.get("resourceVersion", "")
        asked = self._request.query.get("sendInitialEvents")
        if asked is not None and since:
            _check_revision(since, self._store.rows.revision)  # "not older than this" may lie ahead of what is here
        if asked is None and since not in ("", "0"):
            self._events = self._changes(since)
        elif asked is not None and not self._request.flag("sendInitialEvents"):
            if since in ("", "0"):
                since = (await self._page("", 1))[1]
            self._events = self._changes(since)
        else:
            self._page_now = await self._page("", INITIAL_PAGE)
            self._tells_end = asked is not None and self._bookmarks

    async def lines(self) -> AsyncGenerator[bytes, None]:
        try:
            async for line in self._initial():
                yield line
            assert self._events is not None
            # A reader that does not keep up is left at a `yield`: what is below it ends only if it is told to.
            async with aclosing(self._events) as events:
                async for line in self._told(events):
                    yield line
        except StoreError as error:
            yield _line("ERROR", orjson.dumps(status_of(error)))

    async def _initial(self) -> AsyncIterator[bytes]:
        page = self._page_now
        if page is None:
            return
        self._page_now = None
        while True:
            bodies, revision, resume, _ = page
            for body in bodies:
                yield _line("ADDED", self._formed(body))
            if not resume:
                break
            await self._store.turns.rest()
            page = await self._page(resume, INITIAL_PAGE)
        if self._tells_end:
            yield _line("BOOKMARK", orjson.dumps(self._bookmark(revision, {INITIAL_EVENTS_END: "true"})))
        self._events = self._changes(revision)

    async def _page(self, resume: str, limit: int) -> Bodies:
        return await self._store.list_bodies(
            self._served.kind,
            self._request.namespace,
            labels=self._labels,
            fields=self._fields,
            limit=limit,
            resume=resume,
        )

    def _changes(self, since: str) -> AsyncGenerator[tuple[str, bytes], None]:
        return self._store.watch_bodies(
            self._served.kind,
            self._request.namespace,
            since=since,
            labels=self._labels,
            fields=self._fields,
            take=self._take,
        )

    def _formed(self, body: bytes) -> bytes:
        return body if self._form is None else self._form(body)

    def _take(self, events: list[Event]) -> bool:
        """Write events that come while `lines` waits for one."""
        exchange = self.line.exchange
        if exchange is None or not exchange.keeps_up:
            return False
        form = self._form
        if form is None:
            exchange.write_chunk(self._chunks.of(events))
        else:
            exchange.write(b"".join([_line(event, form(body)) for event, body in events]))
        return True

    async def _told(self, events: AsyncIterator[tuple[str, bytes]]) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        told = clock()
        async for event, body in events:
            if event != "BOOKMARK":
                yield _line(event, self._formed(body))
            elif self._bookmarks and clock() - told >= LEAST_BETWEEN_BOOKMARKS_SECONDS:
                told = clock()
                revision = str(orjson.loads(body)["metadata"]["resourceVersion"])
                yield _line("BOOKMARK", orjson.dumps(self._bookmark(revision)))

    def _bookmark(self, revision: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
        kind = self._served.kind
        metadata: dict[str, Any] = {"resourceVersion": revision, "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        if self._request.form == "metadata":
            return partial_object({"metadata": metadata})
        return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}


def _former(printing: Printing, request: Request, served: Served) -> Callable[[bytes], bytes] | None:
    """None: objects are shown as they are."""
    if request.form == "table":
        return printing.row_tables(request, served)
    if request.form == "metadata":
        return lambda body: orjson.dumps(partial_object(orjson.loads(body)))
    return None


def _line(event: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event.encode(), body)


def _whole_number(query: dict[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadRequest(f"{name}: {text!r} must be a whole number, 0 or more")
    return int(text)


def _check_revision(wanted: str, current: int) -> None:
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 19):
        raise BadRequest(f"Invalid value: {wanted!r}: resourceVersion must be a number that this server gave out")
    if int(wanted) > current:
        raise Failure(504, "Timeout", f"Too large resource version: {wanted}, current: {current}", retry_after=1)
