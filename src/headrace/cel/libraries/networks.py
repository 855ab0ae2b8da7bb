"""Kubernetes' ip and cidr libraries (Go's net/netip): no zones, no leading zeros, no IPv4 inside IPv6."""

import re

from headrace.cel.declarations import Function, function, method, overload
from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.addresses import InvalidAddress, address_text, is_mapped, read_packed
from headrace.cel.libraries.formatting import quoted
from headrace.cel.values import Address, Network, Value, no_overload

_BITS = re.compile(r"[+-]?[0-9]+", re.ASCII)


def read_address(text: str) -> Value:
    try:
        packed, zone = read_packed(text)
    except InvalidAddress as error:
        return EvaluationError(f"IP Address {quoted(text)} parse error during conversion from string: {error}")
    if zone:
        return EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if is_mapped(packed):
        return EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return Address(packed)


def read_network(text: str) -> Value:
    words = "network address parse error during conversion from string: "
    network = _prefix_of(text)
    if isinstance(network, str):
        return EvaluationError(f"{words}{words}netip.ParsePrefix({quoted(text)}): {network}")
    if is_mapped(network.packed):
        return EvaluationError(f"{words}IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return network


def _prefix_of(text: str) -> Network | str:
    """The network, or what is wrong with the text."""
    address, slash, bits = text.rpartition("/")
    if not slash:
        return "no '/'"
    try:
        packed, zone = read_packed(address)
    except InvalidAddress as error:
        return str(error)
    if zone:
        return "IPv6 zones cannot be present in a prefix"
    if not _BITS.fullmatch(bits) or (len(bits) > 1 and bits[0] not in "123456789"):
        return f"bad bits after slash: {quoted(bits)}"
    return Network(packed, int(bits)) if int(bits) <= len(packed) * 8 else "prefix length out of range"


def network_text(network: Network) -> str:
    return f"{address_text(network.packed)}/{network.bits}"


def _is_address(text: str) -> bool:
    return isinstance(read_address(text), Address)


def _is_network(text: str) -> bool:
    return isinstance(read_network(text), Network)


def _is_canonical(text: str) -> Value:
    address = read_address(text)
    return address_text(address.packed) == text if isinstance(address, Address) else address


def _family(address: Address) -> int:
    return 4 if len(address.packed) == 4 else 6


def _is_unspecified(address: Address) -> bool:
    return not any(address.packed)


def _is_loopback(address: Address) -> bool:
    packed = address.packed
    return packed[0] == 127 if len(packed) == 4 else packed == bytes(15) + b"\x01"


def _is_link_local_multicast(address: Address) -> bool:
    packed = address.packed
    return packed[:3] == b"\xe0\x00\x00" if len(packed) == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def _is_link_local_unicast(address: Address) -> bool:
    packed = address.packed
    return packed[:2] == b"\xa9\xfe" if len(packed) == 4 else packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


def _is_multicast(address: Address) -> bool:
    packed = address.packed
    return packed[0] & 0xF0 == 0xE0 if len(packed) == 4 else packed[0] == 0xFF


def _is_global_unicast(address: Address) -> bool:
    return not (
        _is_unspecified(address)
        or address.packed == b"\xff\xff\xff\xff"
        or _is_loopback(address)
        or _is_multicast(address)
        or _is_link_local_unicast(address)
    )


def _prefix(packed: bytes, bits: int) -> int:
    return int.from_bytes(packed) >> (len(packed) * 8 - bits)


def _masked(network: Network) -> Network:
    length = len(network.packed)
    kept = _prefix(network.packed, network.bits) << (length * 8 - network.bits)
    return Network(kept.to_bytes(length), network.bits)


def _contains_address(network: Network, address: Value) -> Value:
    if not isinstance(address, Address):
        return no_overload()
    if len(address.packed) != len(network.packed):
        return False
    return _prefix(network.packed, network.bits) == _prefix(address.packed, network.bits)


def _contains_network(network: Network, other: Value) -> Value:
    if not isinstance(other, Network):
        return other if isinstance(other, EvaluationError) else no_overload()
    if len(other.packed) != len(network.packed) or network.bits > other.bits:
        return False
    return _prefix(network.packed, network.bits) == _prefix(other.packed, network.bits)


FUNCTIONS: tuple[Function, ...] = (
    function(
        "ip",
        overload("string_to_ip", "string -> ip", read_address),
        method("cidr_ip", "cidr -> ip", lambda network: Address(network.packed)),
    ),
    function("family", method("ip_family", "ip -> int", _family)),
    function("ip.isCanonical", overload("ip_is_canonical", "string -> bool", _is_canonical)),
    function("isUnspecified", method("ip_is_unspecified", "ip -> bool", _is_unspecified)),
    function("isLoopback", method("ip_is_loopback", "ip -> bool", _is_loopback)),
    function("isLinkLocalMulticast", method("ip_is_link_local_multicast", "ip -> bool", _is_link_local_multicast)),
    function("isLinkLocalUnicast", method("ip_is_link_local_unicast", "ip -> bool", _is_link_local_unicast)),
    function("isGlobalUnicast", method("ip_is_global_unicast", "ip -> bool", _is_global_unicast)),
    function("isIP", overload("is_ip", "string -> bool", _is_address)),
    function(
        "string",
        overload("ip_to_string", "ip -> string", lambda address: address_text(address.packed)),
        overload("cidr_to_string", "cidr -> string", network_text),
    ),
    function("cidr", overload("string_to_cidr", "string -> cidr", read_network)),
    function(
        "containsIP",
        method(
            "cidr_contains_ip_string",
            "cidr, string -> bool",
            lambda network, text: _contains_address(network, read_address(text)),
        ),
        method("cidr_contains_ip_ip", "cidr, ip -> bool", _contains_address),
    ),
    function(
        "containsCIDR",
        method(
            "cidr_contains_cidr_string",
            "cidr, string -> bool",
            lambda network, text: _contains_network(network, read_network(text)),
        ),
        method("cidr_contains_cidr", "cidr, cidr -> bool", _contains_network),
    ),
    function("prefixLength", method("cidr_prefix_length", "cidr -> int", lambda network: network.bits)),
    function("masked", method("cidr_masked", "cidr -> cidr", _masked)),
    function("isCIDR", overload("is_cidr", "string -> bool", _is_network)),
)
