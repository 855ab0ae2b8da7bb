"""Reading objects: get, list page by page on one snapshot, watch; bytes are decoded only where a selector must look."""

import base64
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
import orjson

from headrace.api.objects import Object
from headrace.api.resting import Resting, Turn
from headrace.api.selectors import BadSelector, FieldTerm, Selector, fields_match, parse_fields, parse_labels
from headrace.objects import refusals
from headrace.objects.bodies import decode
from headrace.objects.home import Home, key_of
from headrace.objects.registry import Served
from headrace.store.protocol import BadRequest, Gone
from headrace.store.rows import Change, Key, Offer, Row

SCAN_PAGE = 500
AT_ONCE_BYTES = 64 * 1024  # are offered to a reader together: one that does not keep up has at most these in its buffer
LOOK_BYTES = 400 * 1024  # a selector looks into at a time, in 1 to 4 ms
TURN_ROWS = 2_000  # read at a time: between two pages of a long list others have their turn
_BOOLEANS = ("spec.hostNetwork", "spec.unschedulable")

Event = tuple[str, bytes]
Match = Callable[[bytes], bool]
Take = Callable[[list[Event]], bool]
"""Takes events, or leaves them (False)."""


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labelled = msgspec.json.Decoder(_Labelled)


def get_body(home: Home, served: Served, name: str, namespace: str) -> bytes:
    row = home.rows.get(key_of(served, name, namespace))
    if row is None:
        raise refusals.not_found(served.kind, name)
    return shown(served, row.body)


async def list_bodies(
    home: Home, served: Served, namespace: str, labels: str, fields: str, limit: int, resume: str, at: int = 0
) -> tuple[list[bytes], str, str, int | None]:
    """Bodies, revision, resume token, and how many remain (None where a selector makes that unknown).

    `at` is the revision to list, 0 for the newest; a resume token has its own. Whatever is written between two pages,
    all are of one revision.
    """
    match = selection(served, labels, fields)
    judge = None if match is None else home.verdicts.judge((served.kind, labels, fields), match)
    revision, after = _resumed(served, resume)
    revision = revision or at
    found: list[Row] = []
    while True:
        wanted = limit - len(found) if limit else 0
        size = wanted if judge is None else max(wanted, SCAN_PAGE)
        page = home.rows.page(
            served.stored.resource,
            namespace,
            after=after,
            limit=size if limit else TURN_ROWS,
            at=revision,
            counted=bool(limit) and judge is None,
        )
        revision = revision or page.revision
        matching = page.rows if judge is None else await home.turns.result(_chosen(page.rows, judge))
        if limit and len(matching) > wanted:
            # A page read ahead for a selector: go on after the last row that was taken.
            found += matching[:wanted]
            return _listing(served, found, revision, found[-1].key, None)
        found += matching
        if not page.more:
            return _listing(served, found, revision, None, None)
        after = page.rows[-1].key
        if limit and len(found) == limit:
            return _listing(served, found, revision, after, page.remaining if judge is None else None)
        await home.turns.rest()


def _chosen(rows: list[Row], judge: Callable[[Row], bool]) -> Resting[list[Row]]:
    """The rows that a selector matches: it may have to look into each, which takes as long as they are."""
    found: list[Row] = []
    first = size = 0
    for at, row in enumerate(rows):
        size += len(row.body)
        if size > LOOK_BYTES:
            found += [each for each in rows[first:at] if judge(each)]
            first, size = at, len(row.body)
            yield
    found += [each for each in rows[first:] if judge(each)]
    return found


def _listing(
    served: Served, found: list[Row], revision: int, after: Key | None, remaining: int | None
) -> tuple[list[bytes], str, str, int | None]:
    resume = "" if after is None else _resume(revision, after)
    bodies = [row.body for row in found]
    if not shown_as_stored(served):
        bodies = [shown(served, body) for body in bodies]
    return bodies, str(revision), resume, remaining


def _resume(revision: int, after: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([revision, after.namespace, after.name])).decode()


def _resumed(served: Served, resume: str) -> tuple[int, Key | None]:
    if not resume:
        return 0, None
    try:
        revision, namespace, name = orjson.loads(base64.urlsafe_b64decode(resume))
        if type(revision) is not int or not 0 <= revision < 2**63:
            raise ValueError(f"{revision!r} is no revision")
        return revision, Key(served.stored.resource, str(namespace), str(name))
    except (ValueError, TypeError) as error:
        raise BadRequest(f"continue key is not valid: {error}") from error


def watch_bodies(
    home: Home, served: Served, namespace: str, since: str, labels: str, fields: str, take: Take | None = None
) -> AsyncGenerator[Event, None]:
    """(event type, body) pairs. A malformed request is refused here, not at the first event.

    `take` gets what a commit changed while the reader waits for more; where it returns False, the reader gets it.
    """
    match = selection(served, labels, fields)
    if since and not (since.isascii() and since.isdigit() and len(since) < 19):
        raise BadRequest(
            f'resourceVersion: Invalid value: "{since}": strconv.ParseUint: parsing "{since}": invalid syntax'
        )
    if int(since or 0) > home.rows.revision:
        raise Gone(f"Too large resource version: {since}, current: {home.rows.revision}")
    return _watch(home, served, namespace, int(since or 0), match, take)


def _offered(served: Served, match: Match | None, take: Take) -> Offer:
    as_stored = shown_as_stored(served)

    def offer(changes: Sequence[Change]) -> int:
        taken = at = 0
        try:
            while at < len(changes):
                events: list[Event] = []
                size = 0
                while at < len(changes) and size < AT_ONCE_BYTES:
                    event = _event(changes[at], match)
                    at += 1
                    if event is not None:
                        events.append(event if as_stored else (event[0], shown(served, event[1])))
                        size += len(event[1])
                if events and not take(events):
                    break
                taken = at
        except Exception:  # it happens again where the reader reads it, and there it is the reader's, not the writer's
            return taken
        return taken

    return offer


async def _watch(
    home: Home, served: Served, namespace: str, since: int, match: Match | None, take: Take | None
) -> AsyncGenerator[Event, None]:
    if since == 0:
        page = home.rows.page(served.stored.resource, namespace)
        since = page.revision
        turn = Turn()
        for row in page.rows:
            if turn.is_over(2 + len(row.body) // 100):
                await home.turns.rest()
            if match is None or match(row.body):
                yield "ADDED", shown(served, row.body)
    offer = None if take is None else _offered(served, match, take)
    async with aclosing(home.rows.watch(served.stored.resource, namespace, since=since, offer=offer)) as changes:
        async for change in changes:
            if isinstance(change, int):
                yield "BOOKMARK", bookmark(served, change)
            else:
                event = _event(change, match)
                if event is not None:
                    yield event[0], shown(served, event[1])


def bookmark(served: Served, revision: int) -> bytes:
    return orjson.dumps(
        {
            "apiVersion": served.kind.api_version,
            "kind": served.kind.kind,
            "metadata": {"resourceVersion": str(revision), "creationTimestamp": None},
        }
    )


def _event(change: Change, match: Match | None) -> Event | None:
    """What a watcher sees of a change: an object that begins or ceases to match is added or deleted to it."""
    was = change.before is not None and (match is None or match(change.before))
    if change.body is None:
        return ("DELETED", change.gone or b"") if was else None
    if match is None or match(change.body):
        return ("MODIFIED" if was else "ADDED"), change.body
    if was and change.before is not None:
        last = decode(change.before)
        last["metadata"]["resourceVersion"] = str(change.revision)
        return "DELETED", orjson.dumps(last)
    return None


def shown_as_stored(served: Served) -> bool:
    return served.at_rest is None and served.read is None and not served.custom


def shown(served: Served, body: bytes) -> bytes:
    """The body as this version of the kind shows it."""
    if shown_as_stored(served) or (served.custom and body.startswith(served.beginning)):
        return body
    return orjson.dumps(shown_object(served, decode(body)))


def shown_object(served: Served, obj: Object) -> Object:
    """An object of a custom kind rests in the version that it was written in, whatever is shown now."""
    if served.read is not None:
        return served.read(obj)
    if served.at_rest is None and not served.custom:
        return obj
    return obj | {"apiVersion": served.kind.api_version}


def selection(served: Served, labels: str, fields: str) -> Match | None:
    """A test of bodies, or None where everything matches. Raises BadRequest."""
    try:
        selector, terms = parse_labels(labels), parse_fields(fields)
    except BadSelector as error:
        raise BadRequest(str(error)) from error
    for term in terms:
        _check_path(served, term.path)
    if not terms:
        return _by_labels(selector) if selector.requirements else None
    return lambda body: _matches(selector, terms, served, body)


def _by_labels(selector: Selector) -> Match:
    """Most bodies that do not match lack the very bytes of a label that must be there, so nobody decodes them."""
    equal = [each for each in selector.requirements if each.operator == "="]
    needle = f'"{equal[0].key}":"{equal[0].values[0]}"'.encode() if equal else b""
    decode_labels, matches = _labelled.decode, selector.matches
    return lambda body: needle in body and matches(decode_labels(body).metadata.labels)


def labels_of(body: bytes) -> dict[str, str] | None:
    return _labelled.decode(body).metadata.labels


def _matches(selector: Selector, terms: tuple[FieldTerm, ...], served: Served, body: bytes) -> bool:
    if selector.requirements and not selector.matches(labels_of(body)):
        return False
    obj = shown_object(served, decode(body))
    return fields_match(terms, lambda path: field(obj, path))


def field(obj: Object, path: str) -> str:
    """The text of a field by its path, "" where it is absent; booleans as Go prints them."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if path in _BOOLEANS else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _check_path(served: Served, path: str) -> None:
    if path in ("metadata.name", "metadata.namespace"):
        return
    paths = served.strategy.selectable_fields()
    if path not in paths:
        if paths:
            raise BadRequest(f"field label not supported: {path}")
        raise BadRequest(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')
