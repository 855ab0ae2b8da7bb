"""The addresses of this machine's interfaces: what a server that listens on all of them can be reached at."""

import fcntl
import ipaddress
import socket
import struct
from contextlib import suppress
from pathlib import Path

SIOCGIFADDR = 0x8915
"""netdevice(7): an interface's first IPv4 address, in a `struct ifreq`: 16 bytes of name, then a `sockaddr_in`."""
IPV6 = Path("/proc/net/if_inet6")


def addresses(ipv6: Path = IPV6) -> tuple[str, ...]:
    """In order of interfaces; without link-local ones, which mean nothing on another machine."""
    found: list[ipaddress.IPv4Address | ipaddress.IPv6Address] = [*_ipv4(), *_ipv6(ipv6)]
    return tuple(dict.fromkeys(str(each) for each in found if not each.is_link_local))


def _ipv4() -> list[ipaddress.IPv4Address]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none, or has gone
                answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(ipaddress.IPv4Address(answer[20:24]))
    return found


def _ipv6(table: Path) -> list[ipaddress.IPv6Address]:
    try:
        lines = table.read_text().splitlines()
    except OSError:
        return []  # a kernel without IPv6
    return [ipaddress.IPv6Address(bytes.fromhex(line.split()[0])) for line in lines]
