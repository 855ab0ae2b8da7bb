"""Deleting: at once, gracefully, or when the last finalizer is gone (apiserver's generic registry)."""

from typing import Any

from headrace.api import kinds
from headrace.api.objects import Object
from headrace.objects import node_rights, refusals
from headrace.objects.admission import IMMORTAL
from headrace.objects.bodies import decode, encode
from headrace.objects.formats import format_time, parse_time
from headrace.objects.home import Caller, Home, key_of
from headrace.objects.reading import shown_object
from headrace.objects.registry import Served
from headrace.objects.validation.metadata import FOREGROUND, ORPHAN
from headrace.objects.writing import ATTEMPTS, as_dry_run, commit
from headrace.store.protocol import Conflict, Deletion, Preconditions
from headrace.store.rows import Key, Row, Write


async def delete(
    home: Home, served: Served, name: str, namespace: str, deletion: Deletion, caller: Caller
) -> tuple[Object, bool]:
    """The object as it was left, or as it was last, and whether it is gone."""
    key = key_of(served, name, namespace)
    if served.stored == kinds.NAMESPACE and name in IMMORTAL:
        raise refusals.forbidden(served.kind, name, "this namespace may not be deleted")
    for _ in range(ATTEMPTS):
        row = home.rows.get(key)
        if row is None:
            raise refusals.not_found(served.kind, name)
        obj = decode(row.body)
        _check(served, obj, deletion.preconditions)
        if caller.node:
            node_rights.judge_own(served.stored, obj, caller.node)
        try:
            return await _delete(home, served, key, row, obj, deletion, caller)
        except Conflict:
            if deletion.preconditions.version is not None:
                raise refusals.conflict(served.kind, name) from None
    raise refusals.conflict(served.kind, name)


def _check(served: Served, obj: Object, wanted: Preconditions) -> None:
    meta = obj["metadata"]
    if wanted.uid is not None and wanted.uid != meta["uid"]:
        raise refusals.conflict(
            served.kind,
            meta["name"],
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated",
        )
    if wanted.version is not None and wanted.version != meta["resourceVersion"]:
        raise refusals.conflict(
            served.kind,
            meta["name"],
            f"the ResourceVersion in the precondition ({wanted.version}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified",
        )


async def _delete(
    home: Home, served: Served, key: Key, row: Row, obj: Object, deletion: Deletion, caller: Caller
) -> tuple[Object, bool]:
    now = home.wall()
    caller = as_dry_run(caller, deletion.dry_run)
    before = decode(row.body)
    stays = _marked(served, obj, deletion, now)
    if stays and obj == before:
        return shown_object(served, obj), False
    if stays:
        revision = await commit(home, Write(key, row.revision, encode(obj), obj), caller)
    else:
        confirmed = served.strategy.gone_is_confirmed(obj, caller.user)
        revision = await commit(home, Write(key, row.revision, None, before, confirmed), caller)
    if revision:
        obj["metadata"]["resourceVersion"] = str(revision)
    return shown_object(served, obj), not stays


def _marked(served: Served, obj: Object, deletion: Deletion, now: float) -> bool:
    """Write into `obj` what asking for its deletion changes. False if nothing holds it any longer."""
    meta, strategy = obj["metadata"], served.strategy
    asked = None if deletion.grace_seconds is None else max(deletion.grace_seconds, 0)
    if deletion.grace_seconds is not None and deletion.grace_seconds < 0:
        asked = 1
    if strategy.ends_by_phase:
        return strategy.mark_ending(obj, format_time(now)) or _held(meta)
    pending = meta.get("deletionGracePeriodSeconds", 0)
    if "deletionTimestamp" in meta and pending > 0:
        if asked is None or asked >= pending:
            return True
        _shorten(meta, asked, now)
        _choose_dependents(meta, deletion.propagation)
        return asked > 0 or _held(meta)
    grace = None
    if "deletionTimestamp" not in meta:
        grace = strategy.grace_seconds(obj, asked)
        strategy.mark_deleting(obj, format_time(now))
    if "deletionTimestamp" not in meta or not _held(meta):
        _choose_dependents(meta, deletion.propagation)
    if not grace and not _held(meta):
        return False
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = format_time(now + (grace or 0))
        if meta.get("generation"):
            meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = grace or 0
    return True


def _held(meta: dict[str, Any]) -> bool:
    return bool(meta.get("finalizers"))


def _shorten(meta: dict[str, Any], asked: int, now: float) -> None:
    """A grace period can only become shorter, and never ends in the past."""
    ends = parse_time(meta["deletionTimestamp"]) - meta["deletionGracePeriodSeconds"] + asked
    if ends < now:
        ends, asked = now, min(asked, 1)
    meta["deletionTimestamp"] = format_time(ends)
    meta["deletionGracePeriodSeconds"] = asked


def _choose_dependents(meta: dict[str, Any], propagation: str | None) -> None:
    """Finalizers that tell the garbage collector what to do with dependents; without a policy they stay as they are."""
    if propagation is None:
        return
    rest = [each for each in meta.get("finalizers") or () if each not in (ORPHAN, FOREGROUND)]
    chosen = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(propagation, [])
    if rest + chosen:
        meta["finalizers"] = rest + chosen
    else:
        meta.pop("finalizers", None)
