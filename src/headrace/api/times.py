"""Times as objects carry them: RFC 3339 in UTC, to the second (metav1.Time) or the microsecond (metav1.MicroTime)."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
