"""How a machine becomes a node: it shows a join token and a signing request, and gets its client certificate.

A token is bound to one node's name and to the first key that uses it. The use is stored before the certificate is
made, so a crash in between costs nothing: the same key may ask again while the token is valid.
"""

from collections.abc import Callable
from typing import Any

from headrace.api.kinds import SECRET
from headrace.api.objects import version_of
from headrace.apiserver.credentials import NAMESPACE, JoinToken, from_secret, matches, object_name
from headrace.apiserver.identity import NODE_GROUP, NODE_PREFIX, Identity
from headrace.apiserver.pki import Pki, request_key_hash, sign_request
from headrace.apiserver.statuses import Failure
from headrace.apiserver.tokens import mark_used
from headrace.objects.local import LocalStore
from headrace.store.protocol import BadRequest, Conflict, Forbidden, NotFound


class Joining:
    """`wall`: seconds since the epoch."""

    def __init__(self, store: LocalStore, pki: Pki, wall: Callable[[], float]) -> None:
        self._store = store
        self._pki = pki
        self._wall = wall

    async def join(self, body: Any) -> dict[str, str]:
        """`{node, csr, token}` -> `{certificate, ca}`, all PEM. Raises a 401 Failure for a token that does not hold."""
        node, csr, text = _text(body, "node"), _text(body, "csr"), _text(body, "token")
        key_hash = request_key_hash(csr.encode())
        while True:
            token, name, version = await self._token(text, node)
            if token.used_by == key_hash:
                break
            if token.used_by:
                raise _refused("the join token was used by another machine: make a new one")
            try:
                await mark_used(self._store, name, version, token, key_hash)
            except Conflict:
                continue  # somebody used it just now: look who
            break
        return self._certificate(csr, node)

    def renew(self, identity: Identity, body: Any) -> dict[str, str]:
        """`{csr}` -> a fresh certificate of the same node, for an agent whose own is near its end."""
        if identity.role != "node":
            raise Forbidden(f'renew is forbidden: User "{identity.user}" must be a node')
        return self._certificate(_text(body, "csr"), identity.node)

    def _certificate(self, csr: str, node: str) -> dict[str, str]:
        issued = sign_request(self._pki, csr.encode(), self._wall(), NODE_PREFIX + node, (NODE_GROUP,))
        return {"certificate": issued.decode(), "ca": self._pki.ca_pem().decode()}

    async def _token(self, text: str, node: str) -> tuple[JoinToken, str, str]:
        prefix, _, rest = text.partition(".")
        identifier, _, rest = rest.partition(".")
        secret, _, _ca_hash = rest.partition(".")
        if prefix != "hrjoin" or not identifier.isalnum() or not identifier.isascii():
            raise _refused("this is no join token: make one with `headrace token create --node NAME`")
        name = object_name("join", identifier)
        try:
            stored = await self._store.get(SECRET, name, NAMESPACE)
        except NotFound:
            raise _refused("the join token is unknown, revoked or expired: make a new one") from None
        token = from_secret(stored)
        if not isinstance(token, JoinToken) or not matches(token, secret):
            raise _refused("the join token is unknown, revoked or expired: make a new one")
        if token.expires <= self._wall():
            raise _refused("the join token has expired: make a new one")
        if token.node != node:
            raise _refused(f"the join token is for another node than {node!r}")
        return token, name, version_of(stored)


def _text(body: Any, key: str) -> str:
    value = body.get(key) if isinstance(body, dict) else None
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{key}: must be a text, and not empty")
    return value


def _refused(why: str) -> Failure:
    return Failure(401, "Unauthorized", why)
