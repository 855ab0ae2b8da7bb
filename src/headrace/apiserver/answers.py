"""What a handler gives back: a whole answer, or a stream of pieces. Only `app` knows how they reach the wire."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from headrace.apiserver.exchange import Exchange
from headrace.apiserver.lanes import Long

JSON = b"application/json"
Header = tuple[bytes, bytes]


class Answer(NamedTuple):
    code: int
    body: bytes
    content_type: bytes = JSON
    headers: Sequence[Header] = ()


@dataclass(slots=True)
class Line:
    """The exchange of a stream that has begun: what is told of while `pieces` waits can be written there at once."""

    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """`seconds`: its longest life, None for no end. `starts_at_once`: headers go out before the first piece is there;
    otherwise an error before the first piece is answered as an error."""

    pieces: AsyncGenerator[bytes, None]
    kind: Long
    content_type: bytes = JSON
    seconds: float | None = None
    starts_at_once: bool = True
    line: Line = field(default_factory=Line)


def json_answer(value: Any, code: int = 200, headers: Sequence[Header] = ()) -> Answer:
    return Answer(code, orjson.dumps(value), JSON, headers)


def text_answer(text: str, code: int = 200) -> Answer:
    return Answer(code, text.encode(), b"text/plain; charset=utf-8")


def warning_headers(warnings: Sequence[str]) -> list[Header]:
    """RFC 9111's Warning header as Kubernetes sends it; control characters would break the header."""
    found = []
    for warning in dict.fromkeys(warnings):
        clean = "".join(letter if letter.isprintable() else " " for letter in warning)
        quoted = clean.replace("\\", "\\\\").replace('"', '\\"')
        found.append((b"warning", b'299 - "%s"' % quoted.encode("utf-8")))
    return found
