"""Endpoints, stored only (pkg/apis/core/validation.ValidateEndpoints)."""

import ipaddress
from typing import Any

from headrace.api.objects import Object
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.pod_surroundings import ip_errors

_PROTOCOLS = ("SCTP", "TCP", "UDP")


class EndpointsStrategy(Strategy):
    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port["protocol"] = port.get("protocol") or "TCP"

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        for at, subset in enumerate(obj.get("subsets") or ()):
            path = f"subsets[{at}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.required(path, "must specify `addresses` or `notReadyAddresses`")
            for part in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(part) or ()):
                    _address(address, f"{path}.{part}[{number}]", errors)
            ports = subset.get("ports") or []
            for number, port in enumerate(ports):
                _port(port, f"{path}.ports[{number}]", len(ports) > 1, errors)


def _address(address: dict[str, Any], path: str, errors: FieldErrors) -> None:
    given = address.get("ip", "")
    wrong = ip_errors(given)
    for message in wrong or _of_the_host(given):
        errors.invalid(f"{path}.ip", given, message)
    if address.get("hostname"):
        for message in names.dns_label(address["hostname"]):
            errors.invalid(f"{path}.hostname", address["hostname"], message)
    if "nodeName" in address:
        for message in names.dns_subdomain(address["nodeName"]):
            errors.invalid(f"{path}.nodeName", address["nodeName"], message)


def _of_the_host(text: str) -> list[str]:
    """Addresses that would mean the client's own machine, or no one's."""
    ip = ipaddress.ip_address(text)
    found = []
    if ip.is_unspecified:
        found.append(f"may not be unspecified ({text})")
    if ip.is_loopback:
        found.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if ip.is_link_local:
        found.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if ip in ipaddress.ip_network("224.0.0.0/24" if ip.version == 4 else "ff02::/16"):
        found.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return found


def _port(port: dict[str, Any], path: str, named: bool, errors: FieldErrors) -> None:
    name, protocol = port.get("name", ""), port.get("protocol", "")
    if named and not name:
        errors.required(f"{path}.name")
    for message in names.dns_label(name) if name else ():
        errors.invalid(f"{path}.name", name, message)
    for message in names.port_number(port.get("port", 0)):
        errors.invalid(f"{path}.port", port.get("port", 0), message)
    if protocol not in _PROTOCOLS:
        errors.not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    if "appProtocol" in port:
        for message in names.qualified_name_errors(port["appProtocol"]):
            errors.invalid(f"{path}.appProtocol", port["appProtocol"], message)
