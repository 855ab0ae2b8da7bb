"""Which credentials of a Pod's pull secrets an image is pulled with: the kubelet's rules. No message has a secret.

Source: Kubernetes, pkg/credentialprovider (keyring.go, config.go). A host may have `*` in each of its parts, ports are
equal, a path is a beginning; the more special comes first, and all that match are tried.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.node.runtimes.protocol import PullSecret

CONFIG_JSON, CONFIG = "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"
DOCKER_HUB = "index.docker.io"
DOCKER_HUBS = ("docker.io", DOCKER_HUB)


class BadSecret(Exception):
    """A pull secret cannot be read; the message names it and the field, and tells nothing of its content."""


@dataclass(frozen=True, slots=True)
class Credentials:
    username: str = field(repr=False)
    password: str = field(repr=False)

    def header(self) -> str:
        """The value of X-Registry-Auth."""
        told = json.dumps({"username": self.username, "password": self.password})
        return base64.urlsafe_b64encode(told.encode()).decode()


@dataclass(frozen=True, slots=True)
class Place:
    """Of a registry or in it: the parts of the host (which may be patterns), the port as text, the path."""

    host: tuple[str, ...]
    port: str
    path: str

    def covers(self, other: "Place") -> bool:
        return (
            self.port == other.port
            and len(self.host) == len(other.host)
            and other.path.startswith(self.path)
            and all(_matches(pattern, part) for pattern, part in zip(self.host, other.host, strict=True))
        )


def credentials_for(repository: str, secrets: Iterable[PullSecret]) -> Sequence[Credentials]:
    """To be tried in this order; none: the image is pulled as Podman is logged in. Raises BadSecret.

    `repository` is the image's full name without tag and digest: `docker.io/library/busybox`.
    """
    keyring = _keyring(secrets)
    wanted = _place(repository)
    found = [each for key in sorted(keyring, reverse=True) if _place(key).covers(wanted) for each in keyring[key]]
    if not found and repository.partition("/")[0] in DOCKER_HUBS:
        found = keyring.get(DOCKER_HUB, [])
    return found


def _keyring(secrets: Iterable[PullSecret]) -> dict[str, list[Credentials]]:
    """By host and path, as secrets name them."""
    found: dict[str, list[Credentials]] = {}
    for secret in secrets:
        for location, entry in _entries(secret):
            credentials = _credentials(secret, entry)
            try:
                key = _key(location)
            except ValueError:  # as a kubelet, which ignores a name that is none
                continue
            found.setdefault(key, []).append(credentials)
    return found


def _entries(secret: PullSecret) -> Iterable[tuple[str, dict[str, Any]]]:
    """A secret of another type, or without the data of its type, has none."""
    for type, key in ((CONFIG_JSON, ".dockerconfigjson"), (CONFIG, ".dockercfg")):
        content = secret.data.get(key)
        if secret.type != type or not content:
            continue
        try:
            told = json.loads(content)
            entries = (told.get("auths") or {}) if type == CONFIG_JSON else told
            return [(str(location), dict(entry or {})) for location, entry in entries.items()]
        except (ValueError, AttributeError, TypeError):
            shape = '{"auths": {REGISTRY: {…}}}' if type == CONFIG_JSON else "{REGISTRY: {…}}"
            raise BadSecret(f'imagePullSecret "{secret.name}": {key} must be JSON such as {shape}') from None
    return ()


def _credentials(secret: PullSecret, entry: dict[str, Any]) -> Credentials:
    if any(not isinstance(entry.get(name) or "", str) for name in ("username", "password", "auth")):
        raise BadSecret(f'imagePullSecret "{secret.name}": username, password and auth must be texts')
    if not entry.get("auth"):
        return Credentials(entry.get("username") or "", entry.get("password") or "")
    text = entry["auth"]
    padded = text if text.strip().endswith("=") else text + "=" * (-len(text) % 4)
    try:
        username, colon, password = base64.b64decode(padded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        colon = ""
    if not colon:
        raise BadSecret(f'imagePullSecret "{secret.name}": auth must be base64 of USERNAME:PASSWORD') from None
    return Credentials(username, password)


def _key(location: str) -> str:
    """Raises ValueError."""
    scheme = "" if location.startswith(("https://", "http://")) else "https://"
    parsed = urlsplit(scheme + location)
    host, path = parsed.netloc.rpartition("@")[2], unquote(parsed.path)
    if path.startswith(("/v1/", "/v2/")):
        path = path[3:]
    return host + path if path not in ("", "/") else host


def _place(text: str) -> Place:
    host, slash, path = text.partition("/")
    port = ""
    if bracketed := re.fullmatch(r"\[([^\[\]]*)\]:([^:]*)", host):
        host, port = bracketed.groups()
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    return Place(tuple(host.split(".")), port, slash + path)


def _matches(pattern: str, part: str) -> bool:
    """`*` is any number of characters; there is no other sign that a host may have."""
    return re.fullmatch(".*".join(re.escape(each) for each in pattern.split("*")), part) is not None
