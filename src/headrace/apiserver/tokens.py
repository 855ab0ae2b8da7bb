"""Making and ending credentials: bearer tokens, join tokens, revocations.

What has expired is deleted whenever something new is made, so that the list stays as long as what is in force.
"""

import re
import secrets
from dataclasses import replace

from headrace.api.kinds import SECRET
from headrace.api.objects import name_of
from headrace.apiserver.credentials import (
    LABEL,
    NAMESPACE,
    BearerToken,
    Credential,
    JoinToken,
    Revocation,
    from_secret,
    object_name,
    secret_hash,
    to_secret,
)
from headrace.apiserver.pki import LEAF_DAYS
from headrace.store.protocol import AlreadyExists, BadRequest, NotFound, Store

JOIN_SECONDS = 15 * 60.0
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*", re.ASCII)


def check_node_name(name: str) -> None:
    if len(name) > 253 or not _NODE_NAME.fullmatch(name):
        raise BadRequest(f"node: {name!r} must be a lowercase RFC 1123 subdomain, such as node-a")


async def create_join_token(
    store: Store, node: str, ca_hash: str, now: float, ttl_seconds: float = JOIN_SECONDS
) -> str:
    """The text that lets one machine join as `node` until `now + ttl_seconds`. It is told once and kept nowhere."""
    check_node_name(node)
    identifier, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    await _store(store, JoinToken(identifier, secret_hash(secret), node, now + ttl_seconds), now)
    return f"hrjoin.{identifier}.{secret}.{ca_hash}"


async def create_bearer_token(
    store: Store, user: str, groups: tuple[str, ...], now: float, ttl_seconds: float = 0
) -> str:
    """The text that lets its holder act as `user`; `ttl_seconds` 0 means until it is revoked."""
    if not user or any("," in group or not group for group in groups):
        raise BadRequest("user: must not be empty, and no group may be empty or hold a comma")
    identifier, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    expires = now + ttl_seconds if ttl_seconds else 0.0
    await _store(store, BearerToken(identifier, secret_hash(secret), user, groups, expires), now)
    return f"hr.{identifier}.{secret}"


async def revoke_token(store: Store, identifier: str) -> None:
    """End one bearer or join token by its id (the part between the first two dots). Raises NotFound."""
    for use in ("bearer", "join"):
        try:
            await store.delete(SECRET, object_name(use, identifier), NAMESPACE)
        except NotFound:
            continue
        return
    raise NotFound(f'token "{identifier}" not found')


async def revoke_user(store: Store, user: str, now: float) -> int:
    """End every credential of `user` that exists now: certificates issued until now, bearer and join tokens.

    How many tokens that were.
    """
    ended = 0
    listing = await store.list(SECRET, NAMESPACE, labels=LABEL)
    for secret in listing.items:
        credential = from_secret(secret)
        owner = credential.user if isinstance(credential, BearerToken) else ""
        if isinstance(credential, JoinToken):
            owner = f"system:node:{credential.node}"
        if owner == user:
            await _delete(store, name_of(secret))
            ended += 1
    mark = Revocation(secret_hash(user)[:16], user, now, now + LEAF_DAYS * 86400.0)
    try:
        await _store(store, mark, now)
    except AlreadyExists:
        await store.patch(
            SECRET, object_name("revocation", mark.id), NAMESPACE, fields={"data": to_secret(mark)["data"]}
        )
    return ended


async def mark_used(store: Store, secret_name: str, version: str, token: JoinToken, key_hash: str) -> None:
    """Bind a join token to the key that used it. Raises Conflict when another use came first."""
    used = replace(token, used_by=key_hash)
    await store.patch(SECRET, secret_name, NAMESPACE, fields={"data": to_secret(used)["data"]}, version=version)


async def _store(store: Store, credential: Credential, now: float) -> None:
    """Last, after what has expired is gone: it may be the caller whose credentials end by it."""
    listing = await store.list(SECRET, NAMESPACE, labels=LABEL)
    for secret in listing.items:
        found = from_secret(secret)
        if found is not None and found.expires and found.expires <= now:
            await _delete(store, name_of(secret))
    await store.create(SECRET, to_secret(credential), NAMESPACE)


async def _delete(store: Store, name: str) -> None:
    try:
        await store.delete(SECRET, name, NAMESPACE)
    except NotFound:
        return
