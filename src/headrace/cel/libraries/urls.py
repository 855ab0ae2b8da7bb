"""Kubernetes' URL library: absolute URLs as Go's net/url reads them, fragment and all."""

import re
from dataclasses import dataclass

from headrace.cel.declarations import Function, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.addresses import InvalidAddress, read_packed
from headrace.cel.libraries.formatting import quoted
from headrace.cel.values import Url, Value

_ALWAYS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_UNESCAPED = {
    "path": _ALWAYS | frozenset(b"$&+,/:;=@"),
    "host": _ALWAYS | frozenset(b"!\"$&'()*+,:;<=>[]"),
    "zone": _ALWAYS | frozenset(b"!\"$&'()*+,:;<=>[]"),
    "user": _ALWAYS | frozenset(b"$&+,;="),
    "fragment": _ALWAYS | frozenset(b"!$&()*+,/:;=?@"),
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})")
_ESCAPE_OR_BYTE = re.compile(rb"%[0-9a-fA-F]{2}|[\x00-\xff]", re.DOTALL)
_ASIDE = frozenset(b"!$&'()*+,;=:@[]%")


class _InvalidUrl(ValueError):
    """The text is no URL that a request could be made to."""


@dataclass(frozen=True, slots=True)
class _Parts:
    scheme: str
    opaque: str
    user: str | None
    host: str
    path: str
    query: str
    force_query: bool


def _unescape(text: str, mode: str) -> bytes:
    raw = text.encode()
    for match in _ESCAPE_OR_BYTE.finditer(raw):
        _check_byte(match[0], raw[match.start() : match.start() + 3], mode)
    plus = b" " if mode == "query" else b"+"
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), raw.replace(b"+", plus))


def _check_byte(found: bytes, around: bytes, mode: str) -> None:
    """Refuse a half escape and, in a host or its zone, what may not stand there, escaped or not."""
    if found[:1] != b"%":
        if mode in ("host", "zone") and found[0] < 0x80 and found[0] not in _UNESCAPED[mode]:
            raise _InvalidUrl(f"invalid character {quoted(found.decode())} in host name")
        return
    refused = len(found) == 1
    if len(found) == 3 and found != b"%25":
        value = int(found[1:], 16)
        refused = (mode == "host" and value < 0x80) or (
            mode == "zone" and value != 0x20 and value not in _UNESCAPED["host"]
        )
    if refused:
        raise _InvalidUrl(f"invalid URL escape {quoted(around.decode(errors='replace'))}")


def _escape(raw: bytes, mode: str) -> str:
    kept = _UNESCAPED[mode]
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in raw)


def _as_written(text: str, mode: str) -> str:
    """The escaped form: as written where that is a valid escaping, else escaped anew."""
    if all(byte in _ASIDE or byte in _UNESCAPED[mode] for byte in text.encode()):
        return text
    return _escape(_unescape(text, mode), mode)


def _host(scheme: str, text: str) -> str:
    opening = text.rfind("[")
    if opening > 0:
        raise _InvalidUrl("invalid IP-literal")
    if opening == 0:
        closing = text.rfind("]")
        if closing < 0:
            raise _InvalidUrl("missing ']' in host")
        _check_port(text[closing + 1 :])
        address = text[1:closing].partition("%25")[0]
        raw = _unescape(address, "host") + _unescape(text[1 + len(address) : closing], "zone")
        name = raw.decode(errors="replace")
        try:
            packed, _ = read_packed(name)
        except InvalidAddress as error:
            raise _InvalidUrl(f"invalid host: {error}") from None
        if len(packed) == 4:
            raise _InvalidUrl("invalid IP-literal")
        return f"[{name}]{text[closing + 1 :]}"
    colon = text.find(":")
    if colon >= 0:
        _check_port(text[colon if scheme in ("http", "https") else text.rfind(":") :])
    return _unescape(text, "host").decode(errors="replace")


def _check_port(text: str) -> None:
    if not _PORT.fullmatch(text):
        raise _InvalidUrl(f"invalid port {quoted(text)} after host")


def _authority(scheme: str, text: str) -> tuple[str | None, str]:
    user, at, host_text = text.rpartition("@")
    host = _host(scheme, host_text)
    if not at:
        return None, host
    if not _USER.fullmatch(user):
        raise _InvalidUrl("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    escaped = [_escape(_unescape(each, "user"), "user") for each in ([name, password] if colon else [name])]
    return ":".join(escaped), host


def _parse(text: str, request: bool) -> _Parts:
    if any(character < " " or character == "\x7f" for character in text):
        raise _InvalidUrl("net/url: invalid control character in URL")
    if request and not text:
        raise _InvalidUrl("empty url")
    if text == "*":
        return _Parts("", "", None, "", "*", "", False)
    if text.startswith(":"):
        raise _InvalidUrl("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme, rest = (found[0][:-1].lower(), text[found.end() :]) if found else ("", text)
    force = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return _Parts(scheme, rest, None, "", "", query, force)
        if request:
            raise _InvalidUrl("invalid URI for request")
        if ":" in rest.split("/", 1)[0]:
            raise _InvalidUrl("first path segment in URL cannot contain colon")
    user, host = None, ""
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        user, host = _authority(scheme, authority)
    _unescape(rest, "path")
    return _Parts(scheme, "", user, host, rest, query, force)


def _text(parts: _Parts, fragment: str) -> str:
    """The URL put together again."""
    found = f"{parts.scheme}:" if parts.scheme else ""
    path = "*" if parts.path == "*" else _as_written(parts.path, "path")
    if parts.opaque:
        found += parts.opaque
    else:
        if parts.host or parts.user is not None:
            found += f"//{'' if parts.user is None else parts.user + '@'}{_escape(parts.host.encode(), 'host')}"
        found += path
    if parts.force_query or parts.query:
        found += f"?{parts.query}"
    return f"{found}#{_as_written(fragment, 'fragment')}" if fragment else found


def read_url(text: str) -> Value:
    try:
        _parse(text, request=True)
        before, _, fragment = text.partition("#")
        parts = _parse(before, request=False)
        _unescape(fragment, "fragment")
    except _InvalidUrl as error:
        return EvaluationError(f"URL parse error during conversion from string: parse {quoted(text)}: {error}")
    path = "*" if parts.path == "*" else _as_written(parts.path, "path")
    return Url(parts.scheme, parts.host, path, parts.query, _text(parts, fragment))


def is_request_uri(text: str) -> bool:
    return request_uri_problem(text) is None


def request_uri_problem(text: str) -> str | None:
    try:
        _parse(text, request=True)
    except _InvalidUrl as error:
        return f"parse {quoted(text)}: {error}"
    return None


def _split_port(host: str) -> tuple[str, str]:
    colon, port = host.rfind(":"), ""
    if colon >= 0 and _PORT.fullmatch(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port


def _query(url: Url) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair:
            continue
        name, _, value = pair.partition("=")
        try:
            key, content = _unescape(name, "query"), _unescape(value, "query")
        except _InvalidUrl:
            continue
        found.setdefault(key.decode(errors="replace"), []).append(content.decode(errors="replace"))
    return found


FUNCTIONS: tuple[Function, ...] = (
    function("url", overload("string_to_url", "string -> url", read_url)),
    function("getScheme", method("url_get_scheme", "url -> string", lambda url: url.scheme)),
    function("getHost", method("url_get_host", "url -> string", lambda url: url.host)),
    function("getHostname", method("url_get_hostname", "url -> string", lambda url: _split_port(url.host)[0])),
    function("getPort", method("url_get_port", "url -> string", lambda url: _split_port(url.host)[1])),
    function("getEscapedPath", method("url_get_escaped_path", "url -> string", lambda url: url.path)),
    function("getQuery", method("url_get_query", "url -> map(string, list(string))", _query)),
    function("isURL", overload("is_url_string", "string -> bool", is_request_uri)),
)
