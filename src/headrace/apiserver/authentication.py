"""Who calls: a client certificate of our authority, or a bearer token. Revoked credentials are refused at once.

The credentials stand in memory and follow the store's own watch, so that a check costs no read and a revocation
takes effect with the commit that makes it.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import orjson

from headrace.api.kinds import SECRET
from headrace.api.objects import Object, name_of
from headrace.apiserver.credentials import (
    LABEL,
    NAMESPACE,
    BearerToken,
    Credential,
    JoinToken,
    Revocation,
    from_secret,
    matches,
    object_name,
)
from headrace.apiserver.identity import Certificate, Identity, identity_of
from headrace.apiserver.requests import ANONYMOUS
from headrace.apiserver.statuses import unauthorized
from headrace.objects.local import LocalStore
from headrace.store.protocol import Gone

BEARER_PREFIX = "hr"


@dataclass(slots=True)
class Credentials:
    """What the store holds now."""

    bearer: dict[str, BearerToken] = field(default_factory=dict)
    join: dict[str, JoinToken] = field(default_factory=dict)
    revoked: dict[str, Revocation] = field(default_factory=dict)

    def put(self, credential: Credential) -> None:
        match credential:
            case BearerToken():
                self.bearer[credential.id] = credential
            case JoinToken():
                self.join[credential.id] = credential
            case Revocation():
                self.revoked[credential.user] = credential

    def drop_named(self, secret: str) -> list[str]:
        """What was read of a Secret that is no credential any more; the users whose tokens ended with it."""
        token = self.bearer.pop(secret.removeprefix(object_name("bearer", "")), None)
        self.join.pop(secret.removeprefix(object_name("join", "")), None)
        return [] if token is None else [token.user]

    def drop(self, credential: Credential) -> None:
        match credential:
            case BearerToken():
                self.bearer.pop(credential.id, None)
            case JoinToken():
                self.join.pop(credential.id, None)
            case Revocation():
                self.revoked.pop(credential.user, None)


class Authenticator:
    """`wall`: seconds since the epoch. `on_revoked` is called with a user whose credentials just ended."""

    def __init__(self, store: LocalStore, wall: Callable[[], float], on_revoked: Callable[[str], None]) -> None:
        self._store = store
        self._wall = wall
        self._on_revoked = on_revoked
        self._known = Credentials()
        self._revision = ""

    def identify(self, certificate: Certificate | None, authorization: str) -> Identity:
        """The caller, or ANONYMOUS where nothing was shown. Raises a 401 Failure for what does not hold (any more)."""
        if authorization:
            return self._bearer(authorization)
        if certificate is None:
            return ANONYMOUS
        revocation = self._known.revoked.get(certificate.identity.user)
        if revocation is not None and certificate.issued <= revocation.before:
            raise unauthorized()
        if not certificate.not_after > self._wall():
            raise unauthorized()
        return certificate.identity

    def _bearer(self, authorization: str) -> Identity:
        scheme, _, text = authorization.partition(" ")
        prefix, _, rest = text.strip().partition(".")
        identifier, _, secret = rest.partition(".")
        token = self._known.bearer.get(identifier)
        if scheme.lower() != "bearer" or prefix != BEARER_PREFIX or token is None or not matches(token, secret):
            raise unauthorized()
        if token.expires and token.expires <= self._wall():
            raise unauthorized()
        return identity_of(token.user, token.groups)

    def revoked(self) -> dict[str, float]:
        """Until when what was issued to a user is refused: seconds since the epoch."""
        return {user: each.before for user, each in self._known.revoked.items()}

    async def load(self) -> None:
        """Read all credentials; before the first request is served."""
        listing = await self._store.list(SECRET, NAMESPACE, labels=LABEL)
        known = Credentials()
        for secret in listing.items:
            credential = from_secret(secret)
            if credential is not None:
                known.put(credential)
        ended = [token.user for key, token in self._known.bearer.items() if key not in known.bearer]
        ended += [user for user in known.revoked if known.revoked[user] != self._known.revoked.get(user)]
        self._known, self._revision = known, listing.revision
        for user in ended:
            self._on_revoked(user)

    async def follow(self) -> None:
        """Keep up with the store; runs as long as the server does."""
        while True:
            try:
                watch = self._store.watch_bodies(SECRET, NAMESPACE, since=self._revision, labels=LABEL)
                async with aclosing(watch) as events:
                    async for kind, body in events:
                        self._apply(kind, orjson.loads(body))
            except Gone:
                await self.load()
            await asyncio.sleep(0)

    def _apply(self, event: str, secret: Object) -> None:
        self._revision = str(secret["metadata"]["resourceVersion"])
        if event == "BOOKMARK":
            return
        credential = from_secret(secret)
        if credential is None:
            for user in self._known.drop_named(name_of(secret)):
                self._on_revoked(user)
            return
        if event == "DELETED":
            self._known.drop(credential)
        else:
            self._known.put(credential)
        if isinstance(credential, BearerToken) and event != "ADDED":
            self._on_revoked(credential.user)
        if isinstance(credential, Revocation) and event != "DELETED":
            self._on_revoked(credential.user)
