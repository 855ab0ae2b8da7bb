"""The texts that have one canonical form at rest: quantities, times, base64. Each has a test and a reader.

The test says that a text is canonical already; the reader makes it so, or raises ValueError in the words of Go.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from headrace.api.quantity import parse

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
_MICRO_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z", re.ASCII)
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


@lru_cache(maxsize=4096)
def quantity(text: str) -> str:
    """The canonical text. Raises InvalidQuantity."""
    return str(parse(text))


@lru_cache(maxsize=4096)
def milli_quantity(text: str) -> str:
    """The canonical text of the amount in thousandths, rounded away from zero. Raises InvalidQuantity."""
    read = parse(text)
    thousandths = -(-abs(read.nano) // 10**6)
    return str(replace(read, nano=thousandths * 10**6 if read.nano >= 0 else -thousandths * 10**6))


def _canonical(reader: Callable[[str], str]) -> Callable[[str], bool]:
    """The test that `reader` takes a text and leaves it as it is."""

    def test(text: str) -> bool:
        try:
            return reader(text) == text
        except ValueError:
            return False

    return test


is_quantity = _canonical(quantity)


def format_time(seconds: float) -> str:
    """metav1.Time of seconds since the epoch."""
    return _format_second(int(seconds))


@lru_cache(maxsize=16)
def _format_second(second: int) -> str:
    """Kept, since every write of one second asks for the same."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """metav1.MicroTime of seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 text. Raises ValueError in the words of Go's time package."""
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        whole = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone == 'Z' else zone}").timestamp()
    except ValueError:
        raise ValueError(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None
    return whole + float(fraction or 0)


def time(text: str) -> str:
    return text if is_time(text) else format_time(parse_time(text))


def micro_time(text: str) -> str:
    return text if is_micro_time(text) else format_micro_time(parse_time(text))


@lru_cache(maxsize=1024)
def is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _exists(text)


def is_micro_time(text: str) -> bool:
    return _MICRO_TIME.fullmatch(text) is not None and _exists(text)


def _exists(text: str) -> bool:
    """Whether there is such a day and hour."""
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def go_base64(text: str) -> str:
    compact = text.replace("\n", "").replace("\r", "")
    try:
        decoded = base64.b64decode(compact, validate=True)
    except (binascii.Error, ValueError):
        at = next((at for at, character in enumerate(text) if not _is_base64(character)), len(text))
        raise ValueError(f"illegal base64 data at input byte {at}") from None
    return base64.b64encode(decoded).decode()


def _is_base64(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "+/=")


FORMATS: dict[str, Callable[[str], bool]] = {
    "quantity": is_quantity,
    "milli-quantity": _canonical(milli_quantity),
    "time": is_time,
    "micro-time": is_micro_time,
    "go-base64": _canonical(go_base64),
}
