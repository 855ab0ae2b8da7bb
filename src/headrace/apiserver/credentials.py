"""Credentials at rest: Secrets in kube-system, labelled by what they are. Of a secret only the hash is kept.

A token's text is `hr.ID.SECRET` (bearer) or `hrjoin.ID.SECRET.CAHASH` (joining); 256 random bits need no slow hash.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.api.objects import Fields, Object, metadata, name_of

NAMESPACE = "kube-system"
LABEL = "headrace.dev/credential"
SECRET_TYPE = "headrace.dev/credential"  # a Secret's type, not a secret
Use = Literal["bearer", "join", "revocation"]


@dataclass(frozen=True, slots=True)
class BearerToken:
    """Lets its holder act as `user`. `expires` is seconds since the epoch, 0 for never."""

    id: str
    hash: str
    user: str
    groups: tuple[str, ...]
    expires: float


@dataclass(frozen=True, slots=True)
class JoinToken:
    """Lets one machine become node `node`, once. `used_by` is the hash of the public key that used it."""

    id: str
    hash: str
    node: str
    expires: float
    used_by: str = ""


@dataclass(frozen=True, slots=True)
class Revocation:
    """Client certificates of `user` issued before `before` are refused, and bearer tokens are deleted beside it.

    `expires` is when the last such certificate would have ended by itself.
    """

    id: str
    user: str
    before: float
    expires: float


Credential = BearerToken | JoinToken | Revocation


def secret_hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def matches(credential: BearerToken | JoinToken, secret: str) -> bool:
    return hmac.compare_digest(credential.hash, secret_hash(secret))


def to_secret(credential: Credential) -> Object:
    fields: dict[str, str]
    use: Use
    match credential:
        case BearerToken():
            use = "bearer"
            fields = {"hash": credential.hash, "user": credential.user, "groups": ",".join(credential.groups)}
        case JoinToken():
            use = "join"
            fields = {"hash": credential.hash, "node": credential.node, "usedBy": credential.used_by}
        case Revocation():
            use = "revocation"
            fields = {"user": credential.user, "before": repr(credential.before)}
    fields["expires"] = repr(credential.expires)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": object_name(use, credential.id), "namespace": NAMESPACE, "labels": {LABEL: use}},
        "type": SECRET_TYPE,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in fields.items()},
    }


def object_name(use: Use, identifier: str) -> str:
    return f"headrace-{use}-{identifier}"


def from_secret(secret: Fields) -> Credential | None:
    """None for a Secret that is no credential of ours, or a broken one: what cannot be read grants nothing."""
    if secret.get("type") != SECRET_TYPE:
        return None
    use = str((metadata(secret).get("labels") or {}).get(LABEL, ""))
    identifier = name_of(secret).removeprefix(f"headrace-{use}-")
    try:
        return _read(use, identifier, _decoded(secret.get("data") or {}))
    except (KeyError, ValueError):
        return None


def _decoded(data: Mapping[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value, validate=True).decode() for key, value in data.items()}


def _read(use: str, identifier: str, data: Mapping[str, str]) -> Credential | None:
    expires = float(data["expires"])
    if use == "bearer":
        groups = tuple(filter(None, data["groups"].split(",")))
        return BearerToken(identifier, data["hash"], data["user"], groups, expires)
    if use == "join":
        return JoinToken(identifier, data["hash"], data["node"], expires, data.get("usedBy", ""))
    if use == "revocation":
        return Revocation(identifier, data["user"], float(data["before"]), expires)
    return None
