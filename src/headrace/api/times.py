"""Times as objects carry them: RFC 3339 in UTC, to the second (metav1.Time) or the microsecond (metav1.MicroTime)."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SKEW_SECONDS = 3.0  # by which clocks of several machines, and stamps cut to the second, may differ


def to_time(wall: float) -> str:
    """Seconds since the epoch as Kubernetes' Time, cut to the second: `2026-03-01T12:00:00Z`."""
    return (_EPOCH + timedelta(seconds=int(wall // 1))).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_micro_time(wall: float) -> str:
    """Seconds since the epoch as Kubernetes' MicroTime (Leases): `2026-03-01T12:00:00.000000Z`."""
    return (_EPOCH + timedelta(microseconds=round(wall * 1_000_000))).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_time(text: str) -> float:
    """Seconds since the epoch. Raises ValueError when the text is no RFC 3339 time with a zone."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r}: must be an RFC 3339 time with a zone, such as 2026-03-01T12:00:00Z")
    return (at - _EPOCH).total_seconds()


def stamp(recorded: object) -> float:
    """`from_time` of what a server has recorded. None, and one that cannot be read, count as long ago (0): an object
    that an older version left so must not keep others waiting that are judged together with it."""
    try:
        return from_time(str(recorded)) if recorded else 0.0
    except ValueError:
        return 0.0


def past(text: str, now: float) -> float:
    """`stamp` of something that is waited for since then. One that lies ahead of `now` was written by a clock that was
    set back since: it counts as long ago (0), so that no wait lasts longer than it should."""
    at = stamp(text)
    return at if at <= now + SKEW_SECONDS else 0.0
