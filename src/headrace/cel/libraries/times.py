"""Durations and timestamps: Go's texts for them, arithmetic within the years 1 to 9999, and the calendar getters."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from zoneinfo import ZoneInfo

from headrace.cel.declarations import Function, function, method
from headrace.cel.errors import EvaluationError
from headrace.cel.values import INT_MAX, INT_MIN, SECOND, Duration, Timestamp, Value

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_SECONDS = 86_400
_CYCLE_YEARS, _CYCLE_SECONDS = (
    400,
    146_097 * _DAY_SECONDS,
)  # after which the calendar repeats, days of the week included
_UNITS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


def read_duration(text: str) -> Duration | None:
    """Go's `1h30m`, `-1.5s`, `0`; None for anything else."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return Duration(0)
    total, at = Fraction(0), 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None or not (part[1] or part[2]):
            return None
        unit = _UNITS[part[3]]
        total += int(part[1] or "0") * unit
        if part[2]:
            total += int(float(int(part[2][:18])) * (float(unit) / float(10 ** len(part[2][:18]))))
        at = part.end()
    if not body or total > (2**63 if text[0] == "-" else INT_MAX):
        return None
    return Duration(-int(total) if text[0] == "-" else int(total))


def duration_text(duration: Duration) -> str:
    """Seconds, as cel-go prints them: `5400s`, `1.5s`."""
    sign = -1 if duration.nanoseconds < 0 else 1
    whole, rest = divmod(abs(duration.nanoseconds), SECOND)
    return f"{plain_decimal(sign * (float(whole) + rest / 1e9))}s"


def plain_decimal(value: float) -> str:
    """The shortest digits that read back as this float, without an exponent."""
    text = repr(value)
    if "e" in text:
        text = _expanded(text)
    return text.removesuffix(".0")


def _expanded(text: str) -> str:
    mantissa, exponent = text.split("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits, point = whole + fraction, len(whole) + int(exponent)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def read_timestamp(text: str) -> Timestamp | EvaluationError | None:
    """RFC 3339; None for another text, an error for a time outside the years 1 to 9999."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
    offset = 0
    if match[8]:
        offset = (int(match[9]) * 3600 + int(match[10]) * 60) * (-1 if match[8] == "-" else 1)
        if int(match[9]) > 24 or int(match[10]) > 59:
            return None
    if year == 0:
        return EvaluationError("timestamp overflow")
    try:
        local = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = _whole_seconds(local) - offset
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        return EvaluationError("timestamp overflow")
    return Timestamp(seconds * SECOND + int((match[7] or "0")[:9].ljust(9, "0")), offset)


def timestamp_text(timestamp: Timestamp) -> str:
    seconds, rest = divmod(timestamp.nanoseconds, SECOND)
    local, year = _local(seconds + timestamp.offset_seconds)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    if not timestamp.offset_seconds:
        zone = "Z"
    else:
        sign, minutes = "-" if timestamp.offset_seconds < 0 else "+", abs(timestamp.offset_seconds) // 60
        zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{year:04d}-{local:%m-%dT%H:%M:%S}{fraction}{zone}"


def _local(seconds: int) -> tuple[datetime, int]:
    """Calendar and clock of a second, and its year: a zone may carry it out of the years that datetime knows."""
    cycles = (seconds > LAST_SECOND) - (seconds < FIRST_SECOND)
    moment = _EPOCH + timedelta(seconds=seconds - cycles * _CYCLE_SECONDS)
    return moment, moment.year + cycles * _CYCLE_YEARS


def from_seconds(seconds: int) -> Timestamp | EvaluationError:
    if not FIRST_SECOND <= seconds <= LAST_SECOND:
        return EvaluationError("timestamp overflow")
    return Timestamp(seconds * SECOND)


def add_duration(timestamp: Timestamp, duration: Duration) -> Timestamp | EvaluationError:
    moved = timestamp.nanoseconds + duration.nanoseconds
    if not FIRST_SECOND <= moved // SECOND <= LAST_SECOND:
        return EvaluationError("timestamp overflow")
    return Timestamp(moved, timestamp.offset_seconds)


def subtract_times(one: Timestamp, other: Timestamp) -> Duration | EvaluationError:
    between = one.nanoseconds - other.nanoseconds
    whole = (one.nanoseconds // SECOND - other.nanoseconds // SECOND) * SECOND
    if not (INT_MIN <= between <= INT_MAX and INT_MIN <= whole <= INT_MAX):
        return EvaluationError("integer overflow")
    return Duration(between)


def _whole_seconds(moment: datetime) -> int:
    since = moment - _EPOCH
    return since.days * 86_400 + since.seconds


@cache
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo("UTC" if name in ("", "UTC", "Local") else name)
    except (KeyError, ValueError, OSError):
        return None


def _offset_seconds(zone: str, seconds: int) -> int | EvaluationError:
    """How far a zone, by name or as hours and minutes, is east of UTC at that time."""
    hours, colon, minutes = zone.partition(":")
    if not colon:
        known = _zone(zone)
        if known is None:
            return EvaluationError(f"unknown time zone {zone}")
        near = min(max(seconds, FIRST_SECOND + _DAY_SECONDS), LAST_SECOND - _DAY_SECONDS)
        found = (_EPOCH + timedelta(seconds=near)).astimezone(known).utcoffset()
        return int(found.total_seconds()) if found is not None else 0
    for text in (hours, minutes):
        if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
            return EvaluationError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return (int(hours) * 60 + (-int(minutes) if zone[0] == "-" else int(minutes))) * 60


def _getter(read: Callable[[datetime, int], int]) -> Callable[..., Value]:
    def get(timestamp: Timestamp, zone: str = "UTC") -> Value:
        local = _in_zone(timestamp, zone)
        return local if isinstance(local, EvaluationError) else read(local[0], timestamp.nanoseconds % SECOND)

    return get


def _in_zone(timestamp: Timestamp, zone: str) -> tuple[datetime, int] | EvaluationError:
    seconds = timestamp.nanoseconds // SECOND
    offset = _offset_seconds(zone, seconds)
    return offset if isinstance(offset, EvaluationError) else _local(seconds + offset)


def _year(timestamp: Timestamp, zone: str = "UTC") -> Value:
    local = _in_zone(timestamp, zone)
    return local if isinstance(local, EvaluationError) else local[1]


def _whole(duration: Duration, unit: int) -> int:
    """Whole units, towards zero."""
    units = abs(duration.nanoseconds) // unit
    return -units if duration.nanoseconds < 0 else units


_month = _getter(lambda moment, _: moment.month - 1)
_day_of_year = _getter(lambda moment, _: moment.timetuple().tm_yday - 1)
_day_of_month = _getter(lambda moment, _: moment.day - 1)
_date = _getter(lambda moment, _: moment.day)
_day_of_week = _getter(lambda moment, _: moment.isoweekday() % 7)
_hours = _getter(lambda moment, _: moment.hour)
_minutes = _getter(lambda moment, _: moment.minute)
_seconds = _getter(lambda moment, _: moment.second)
_milliseconds = _getter(lambda _, rest: rest // 10**6)


def _calendar(name: str, id: str, run: Callable[..., Value], zoned: str = "") -> Function:
    return function(
        name,
        method(id, "timestamp -> int", run),
        method(zoned or f"{id}_with_tz", "timestamp, string -> int", run),
    )


def _clock(name: str, unit: str, run: Callable[..., Value], nanoseconds: int, zoned: str = "") -> Function:
    found = _calendar(name, f"timestamp_to_{unit}", run, zoned)
    of_duration = method(f"duration_to_{unit}", "duration -> int", lambda duration: _whole(duration, nanoseconds))
    found.overloads[of_duration.id] = of_duration
    return found


FUNCTIONS: tuple[Function, ...] = (
    _calendar("getFullYear", "timestamp_to_year", _year),
    _calendar("getMonth", "timestamp_to_month", _month),
    _calendar("getDayOfYear", "timestamp_to_day_of_year", _day_of_year),
    _calendar("getDayOfMonth", "timestamp_to_day_of_month", _day_of_month),
    _calendar("getDate", "timestamp_to_day_of_month_1_based", _date),
    _calendar("getDayOfWeek", "timestamp_to_day_of_week", _day_of_week),
    _clock("getHours", "hours", _hours, 3600 * SECOND),
    _clock("getMinutes", "minutes", _minutes, 60 * SECOND),
    _clock("getSeconds", "seconds", _seconds, SECOND, "timestamp_to_seconds_tz"),
    _clock("getMilliseconds", "milliseconds", _milliseconds, 10**6),
)
