"""The rules of what a Pod finds around itself: DNS, hosts, users and groups, sysctls, gates."""

import ipaddress
import re
from typing import Any

from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors

DNS_SERVERS, DNS_SEARCHES, DNS_SEARCH_CHARACTERS = 3, 32, 2048
LARGEST_ID = 2**31 - 1
_ID_WORDS = f"must be between 0 and {LARGEST_ID}, inclusive"
_IP_WORDS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_SYSCTL_PART = r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_SYSCTL = re.compile(rf"(?:{_SYSCTL_PART}[./])*{_SYSCTL_PART}", re.ASCII)
_SYSCTL_WORDS = (
    r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*"
    "[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)


def ip_errors(text: str) -> list[str]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return [_IP_WORDS]
    return []


def validate_surroundings(spec: dict[str, Any], path: str, errors: FieldErrors) -> None:
    _security(spec.get("securityContext") or {}, f"{path}.securityContext", errors)
    _dns(spec, f"{path}.dnsConfig", errors)
    for at, gate in enumerate(spec.get("readinessGates") or ()):
        name = gate.get("conditionType", "")
        for message in names.qualified_name_errors(name):
            errors.invalid(f"{path}.readinessGates[{at}].conditionType", name, message)
    for at, alias in enumerate(spec.get("hostAliases") or ()):
        here = f"{path}.hostAliases[{at}]"
        for message in ip_errors(alias.get("ip", "")):
            errors.invalid(f"{here}.ip", alias.get("ip", ""), message)
        for number, host in enumerate(alias.get("hostnames") or ()):
            for message in names.dns_subdomain(host):
                errors.invalid(f"{here}.hostnames[{number}]", host, message)
    system = spec.get("os")
    if system is not None:
        if not system.get("name"):
            errors.required(f"{path}.os.name")
        elif system["name"] not in ("linux", "windows"):
            errors.not_supported(f"{path}.os", system["name"], ("linux", "windows"))


def validate_container_security(context: dict[str, Any], path: str, errors: FieldErrors) -> None:
    _ids(context, ("runAsUser", "runAsGroup"), path, errors)
    _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", errors)
    if context.get("procMount", "Default") not in ("Default", "Unmasked"):
        errors.not_supported(f"{path}.procMount", context["procMount"], ("Default", "Unmasked"))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            errors.invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.invalid(path, context, words)


def _security(context: dict[str, Any], path: str, errors: FieldErrors) -> None:
    _ids(context, ("fsGroup", "runAsUser", "runAsGroup"), path, errors)
    for at, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= LARGEST_ID:
            errors.invalid(f"{path}.supplementalGroups[{at}]", group, _ID_WORDS)
    seen: set[str] = set()
    for at, sysctl in enumerate(context.get("sysctls") or ()):
        here, name = f"{path}.sysctls[{at}].name", sysctl.get("name", "")
        if not name:
            errors.required(here)
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            errors.invalid(here, name, _SYSCTL_WORDS)
        elif name in seen:
            errors.duplicate(here, name)
        seen.add(name)
    for part, allowed in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ):
        if part in context and context[part] not in allowed:
            errors.not_supported(f"{path}.{part}", context[part], allowed)
    _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", errors)


def _ids(context: dict[str, Any], parts: tuple[str, ...], path: str, errors: FieldErrors) -> None:
    for part in parts:
        if part in context and not 0 <= context[part] <= LARGEST_ID:
            errors.invalid(f"{path}.{part}", context[part], _ID_WORDS)


def _seccomp(profile: dict[str, Any] | None, path: str, errors: FieldErrors) -> None:
    if profile is None:
        return
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        if not file:
            errors.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    elif file is not None:
        errors.invalid(f"{path}.localhostProfile", file, "can only be set when seccomp type is Localhost")
    if not kind:
        errors.required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in ("Localhost", "RuntimeDefault", "Unconfined"):
        errors.not_supported(f"{path}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))


def _dns(spec: dict[str, Any], path: str, errors: FieldErrors) -> None:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or []
    if spec.get("dnsPolicy") == "None":
        if config is None:
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.required(f"{path}.nameservers", words)
            return
    config = config or {}
    if len(servers) > DNS_SERVERS:
        errors.invalid(f"{path}.nameservers", servers, f"must not have more than {DNS_SERVERS} nameservers")
    for at, server in enumerate(servers):
        for message in ip_errors(server):
            errors.invalid(f"{path}.nameservers[{at}]", server, message)
    _searches(config.get("searches") or [], f"{path}.searches", errors)
    for at, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.required(f"{path}.options[{at}]", "must not be empty")


def _searches(searches: list[str], path: str, errors: FieldErrors) -> None:
    if len(searches) > DNS_SEARCHES:
        errors.invalid(path, searches, f"must not have more than {DNS_SEARCHES} search paths")
    if len(" ".join(searches)) > DNS_SEARCH_CHARACTERS:
        words = f"must not have more than {DNS_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.invalid(path, searches, words)
    for at, search in enumerate(searches):
        domain = search.removesuffix(".")
        for message in names.dns_subdomain_with_underscore(domain) if search != "." else ():
            errors.invalid(f"{path}[{at}]", domain, message)
