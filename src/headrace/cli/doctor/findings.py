"""What doctor makes of what it saw: each check is a pure function of facts, and says what to do unless all is well."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from headrace.api.objects import name_of
from headrace.api.times import from_time
from headrace.ledger.departed import is_unconfirmed
from headrace.ledger.document import BooksDocument, LedgerDocument
from headrace.ledger.nodes import strays_of

Level = Literal["ok", "warn", "fail"]

SKEW_WARN_SECONDS = 2.0
SKEW_FAIL_SECONDS = 900.0  # as long as a join token is good
RENEWED_DAYS = 30.0  # agents renew long before, a server at each start
DAY_SECONDS = 86400.0
LEAST_FREE_BYTES = 100 * 1024 * 1024
LOW_FREE_BYTES = 1024 * 1024 * 1024
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` says what to do; a finding without one is well."""

    level: Level
    check: str
    message: str
    remedy: str = ""


def books(served: BooksDocument, folded: BooksDocument) -> Iterator[Finding]:
    """The guard's books against a fold over the objects of the same revision; what was deleted stands in the first."""
    for name in sorted({*served.nodes, *folded.nodes}):
        here, there = served.nodes.get(name), folded.nodes.get(name)
        if here is None or there is None:
            told = "objects" if here is None else "the server's books"
            yield _broken_books(f"node {name} is only in {told}")
            continue
        wrong = list(_differences(_without_departed(here), _without_departed(there)))
        summed = _sum(here.holders.values())
        if summed != _positive(here.allocated):
            wrong.append(f"allocated is {here.allocated}, its holders hold {summed}")
        for each in wrong:
            yield _broken_books(f"node {name}: {each}")
        if not wrong:
            yield Finding(
                "ok", "books", f"node {name}: what its {len(here.holders)} holders hold is what their objects say"
            )
        yield from _state_of(name, here)


def _broken_books(message: str) -> Finding:
    remedy = "Restart the server, which folds its books anew, and report this: it must never happen"
    return Finding("fail", "books", message, remedy)


def _state_of(name: str, ledger: LedgerDocument) -> Iterator[Finding]:
    waiting = [holder for holder in ledger.holders if is_unconfirmed(holder)]
    if waiting:
        remedy = "Wait for its agent, or start it; a node that will not come back is let go with `kubectl delete node`"
        told = f"node {name} still holds what was deleted: {', '.join(waiting)}"
        yield Finding("warn", "books", told, remedy)
    overfull = {resource: amount for resource, amount in ledger.available.items() if amount < 0}
    if overfull:
        remedy = "Delete or shrink Pods there: `headrace capacity` shows the largest holders"
        yield Finding("warn", "books", f"node {name} holds more than it has: available {overfull}", remedy)


def _without_departed(ledger: LedgerDocument) -> LedgerDocument:
    holders = {holder: held for holder, held in ledger.holders.items() if not is_unconfirmed(holder)}
    devices = {
        pool: {device: tuple(o for o in owners if not is_unconfirmed(o)) for device, owners in found.items()}
        for pool, found in ledger.devices.items()
    }
    return LedgerDocument(ledger.total, ledger.reserved, {}, {}, holders, devices, ledger.floors)


def _differences(served: LedgerDocument, folded: LedgerDocument) -> Iterator[str]:
    for field in ("total", "reserved", "holders", "devices", "floors"):
        here, there = (msgspec.to_builtins(getattr(each, field)) for each in (served, folded))
        for key in sorted({*here, *there}):
            if here.get(key) != there.get(key):
                yield f"{field} {key}: {here.get(key)} in the server's books, {there.get(key)} by the objects"


def _sum(many: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for held in many:
        for resource, amount in held.items():
            found[resource] = found.get(resource, 0) + amount
    return _positive(found)


def _positive(amounts: Mapping[str, int]) -> dict[str, int]:
    return {resource: amount for resource, amount in amounts.items() if amount}


def node(found: Mapping[str, Any]) -> Iterator[Finding]:
    """Is it ready, what runs there that nobody owns, and are its limits enforced."""
    name = name_of(found)
    annotations: Mapping[str, str] = found["metadata"].get("annotations") or {}
    ready: Mapping[str, str] = next(
        (c for c in (found.get("status") or {}).get("conditions") or () if c["type"] == "Ready"), {}
    )
    if ready.get("status") == "True":
        yield Finding("ok", "node", f"{name} is ready")
    else:
        told = ready.get("message") or ready.get("reason") or "it has not reported"
        yield Finding("fail", "node", f"{name} is not ready: {told}", "Look at the agent there: is it running?")
    strays = strays_of(annotations.get("headrace.dev/strays", ""))
    if strays:
        told = ", ".join(f"{holder.removeprefix('stray ')} {dict(held)}" for holder, held in strays)
        remedy = "They are charged. End them on that machine if nobody needs them"
        yield Finding("warn", "strays", f"{name} runs what no object owns: {told}", remedy)
    else:
        yield Finding("ok", "strays", f"{name} runs nothing that no object owns")
    yield _enforcement(name, annotations.get("headrace.dev/enforcement", ""))


def _enforcement(name: str, text: str) -> Finding:
    try:
        told: Mapping[str, Any] = json.loads(text)
        kinds = {resource: str(told[resource]) for resource in ("cpu", "memory")}
    except (ValueError, KeyError, TypeError):
        return Finding("warn", "cgroups", f"{name} does not say how limits are enforced", "Update its agent")
    detail = str(told.get("detail", ""))
    weak = [f"{resource} {kind}" for resource, kind in kinds.items() if kind != "enforced"]
    if not weak:
        return Finding("ok", "cgroups", f"{name} enforces limits of cpu and memory ({detail})")
    remedy = "Run the agent where it may write cgroups: as root, or in a delegated cgroup (systemd: Delegate=yes)"
    return Finding("warn", "cgroups", f"{name}: limits of {', '.join(weak)} ({detail})", remedy)


def node_clock(lease: Mapping[str, Any]) -> Finding | None:
    """Its Lease says when the node believes to have renewed it; managedFields when the server wrote that down.

    The server's entry has whole seconds, so a second of difference says nothing.
    """
    name = name_of(lease)
    renewed = (lease.get("spec") or {}).get("renewTime")
    written = max((e["time"] for e in lease["metadata"].get("managedFields") or () if e.get("time")), default="")
    if not renewed or not written:
        return None
    return _skew("node " + name, from_time(str(renewed)) - from_time(str(written)), "the server's", rounding=1.0)


def own_clock(server_seconds: float, asked: float, answered: float) -> Finding:
    """`asked` and `answered`: this machine's wall clock around the question."""
    return _skew("this machine", (asked + answered) / 2 - server_seconds, "the server's", rounding=answered - asked)


def _skew(whose: str, seconds: float, other: str, rounding: float) -> Finding:
    off = max(0.0, abs(seconds) - rounding)
    way = "ahead of" if seconds > 0 else "behind"
    if off < SKEW_WARN_SECONDS:
        return Finding("ok", "clock", f"{whose}: within {SKEW_WARN_SECONDS:.0f} s of {other} clock")
    remedy = "Set the clock by NTP (timedatectl set-ntp true): tokens and certificates are judged by it"
    level: Level = "fail" if off >= SKEW_FAIL_SECONDS else "warn"
    return Finding(level, "clock", f"{whose} is {abs(seconds):.0f} s {way} {other} clock", remedy)


def certificate(what: str, ends: float, now: float) -> Finding:
    """`ends` and `now` in seconds since the epoch."""
    days = (ends - now) / DAY_SECONDS
    remedy = "Restart `headrace up` or `server`, which makes new ones, or the agent for its own"
    if days <= 0:
        return Finding("fail", "certificates", f"{what} expired {-days:.0f} days ago", remedy)
    if days < RENEWED_DAYS:
        return Finding("warn", "certificates", f"{what} expires in {days:.0f} days", remedy)
    return Finding("ok", "certificates", f"{what} is good for {days:.0f} days")


def disk(where: str, free: int, total: int, *, writable: bool = True) -> Finding:
    if not writable:
        return Finding("fail", "disk", f"{where}: nothing can be written there", "Mount it for writing, as its owner")
    told = f"{where}: {free // MIB} MiB free of {total // MIB} MiB"
    remedy = "Free some: without space writes are refused (507); they go on by themselves once there is some"
    if free < LEAST_FREE_BYTES:
        return Finding("fail", "disk", told, remedy)
    return Finding("warn" if free < LOW_FREE_BYTES else "ok", "disk", told, remedy if free < LOW_FREE_BYTES else "")
