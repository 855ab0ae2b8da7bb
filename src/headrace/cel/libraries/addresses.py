"""Reads IP addresses as Go's net/netip does, with its words for what is wrong with one."""

import ipaddress
import re

from headrace.cel.libraries.formatting import quoted

_HEX = re.compile(r"[0-9a-fA-F]*", re.ASCII)
MAPPED = bytes(10) + b"\xff\xff"


class InvalidAddress(ValueError):
    """The text is no address; the message is Go's."""

    def __init__(self, text: str, message: str, at: str = "") -> None:
        super().__init__(f"ParseAddr({quoted(text)}): {message}" + (f" (at {quoted(at)})" if at else ""))


def address_text(packed: bytes) -> str:
    return str(ipaddress.ip_address(packed))


def is_mapped(packed: bytes) -> bool:
    """Whether it is an IPv4 address inside IPv6."""
    return len(packed) == 16 and packed[:12] == MAPPED


def read_packed(text: str) -> tuple[bytes, str]:
    """The bytes of an address and its zone; raises InvalidAddress."""
    first = next((character for character in text if character in ".:%"), "")
    if first == ".":
        return _four(text, text), ""
    if first == ":":
        return _six(text)
    raise InvalidAddress(text, "missing IPv6 address" if first else "unable to parse IP")


def _four(text: str, part: str) -> bytes:
    fields: list[int] = []
    value, digits = 0, 0
    for index, character in enumerate(part):
        if character in "0123456789":
            if digits == 1 and value == 0:
                raise InvalidAddress(text, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                raise InvalidAddress(text, "IPv4 field has value >255")
        elif character != ".":
            raise InvalidAddress(text, "unexpected character", part[index:])
        else:
            if index in (0, len(part) - 1) or part[index - 1] == ".":
                raise InvalidAddress(text, "IPv4 field must have at least one digit", part[index:])
            if len(fields) == 3:
                raise InvalidAddress(text, "IPv4 address too long")
            fields.append(value)
            value, digits = 0, 0
    if len(fields) < 3:
        raise InvalidAddress(text, "IPv4 address too short")
    return bytes([*fields, value])


def _six(text: str) -> tuple[bytes, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise InvalidAddress(text, "zone must be a non-empty string")
    found, gap = b"", -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return bytes(16), zone
    while len(found) < 16:
        group = _HEX.match(rest)
        digits = group[0] if group else ""
        _check_group(text, rest, digits)
        if rest[len(digits) : len(digits) + 1] == ".":
            found, rest = found + _embedded(text, rest, len(found), gap), ""
            break
        found, rest = found + int(digits, 16).to_bytes(2), rest[len(digits) :]
        if not rest:
            break
        rest = _after_colon(text, rest)
        if rest.startswith(":"):
            if gap >= 0:
                raise InvalidAddress(text, "multiple :: in address", rest)
            gap, rest = len(found), rest[1:]
            if not rest:
                break
    return _filled(text, found, gap, rest), zone


def _embedded(text: str, rest: str, length: int, gap: int) -> bytes:
    if gap < 0 and length != 12:
        raise InvalidAddress(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if length > 12:
        raise InvalidAddress(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return _four(text, rest)


def _check_group(text: str, rest: str, digits: str) -> None:
    if len(digits) > 4:
        raise InvalidAddress(text, "each group must have 4 or less digits", rest)
    if not digits:
        raise InvalidAddress(text, "each colon-separated field must have at least one digit", rest)


def _after_colon(text: str, rest: str) -> str:
    if rest[0] != ":":
        raise InvalidAddress(text, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise InvalidAddress(text, "colon must be followed by more characters", rest)
    return rest[1:]


def _filled(text: str, found: bytes, gap: int, rest: str) -> bytes:
    """All 16 bytes, zeros where the :: was."""
    if rest:
        raise InvalidAddress(text, "trailing garbage after address", rest)
    if len(found) < 16 and gap < 0:
        raise InvalidAddress(text, "address string too short")
    if len(found) == 16 and gap >= 0:
        raise InvalidAddress(text, "the :: must expand to at least one field of zeros")
    return found if gap < 0 else found[:gap] + bytes(16 - len(found)) + found[gap:]
