"""String and bytes literals: from the text in the source to the value it stands for."""

import re

_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPES = re.compile(
    r"\\(?:(?P<octal>[0-3][0-7]{2})|[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<c>.))",
    re.DOTALL,
)


class InvalidText(ValueError):
    """The literal cannot be read; the message is cel-go's."""


def string_literal(text: str) -> str:
    body, raw = _body(text)
    return body if raw else _ESCAPES.sub(_character, body)


def bytes_literal(text: str) -> bytes:
    """`text` is without its leading b. Octal and hex escapes are bytes, everything else is UTF-8."""
    body, raw = _body(text)
    if raw:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPES.finditer(body):
        parts.append(body[end : match.start()].encode())
        end = match.end()
        if match["u"] or match["U"]:
            raise InvalidText("unable to unescape string")
        if match["octal"] or match["x"]:
            parts.append(bytes([int(match["octal"], 8) if match["octal"] else int(match["x"], 16)]))
        else:
            parts.append(_SIMPLE[match["c"]].encode())
    parts.append(body[end:].encode())
    return b"".join(parts)


def _body(text: str) -> tuple[str, bool]:
    """Without prefix and quotes, line ends made \\n; and whether it is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ("'''", '"""') else 1
    return text[quotes:-quotes], raw


def _character(match: re.Match[str]) -> str:
    if match["c"]:
        return _SIMPLE[match["c"]]
    code = int(match["octal"], 8) if match["octal"] else int(match["x"] or match["u"] or match["U"], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise InvalidText("invalid unicode code point")
    return chr(code)
