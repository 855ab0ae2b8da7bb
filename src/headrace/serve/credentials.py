"""Giving out and ending credentials through the API of a running server; what ends is refused from that write on."""

import time

from headrace.api.roles import UserRole
from headrace.apiserver.identity import ADMIN, ADMIN_GROUP, CONTROLLER, CONTROLLER_GROUP, VIEWER, VIEWER_GROUP
from headrace.apiserver.tokens import create_bearer_token, revoke_token, revoke_user
from headrace.client.http import Client
from headrace.store.kubernetes import KubernetesStore

GROUPS: dict[UserRole, str] = {"viewer": VIEWER_GROUP, "controller": CONTROLLER_GROUP, "admin": ADMIN_GROUP}

OWN = (ADMIN, CONTROLLER, VIEWER)
"""Whose kubeconfigs lie in the data directory: a server makes new ones at its start where these were revoked."""


async def user_token(client: Client, user: str, role: UserRole, seconds: float) -> str:
    """A bearer token by which its holder is `user` for so long. Raises StoreError."""
    return await create_bearer_token(KubernetesStore(client), user, (GROUPS[role],), time.time(), seconds)


async def end_token(client: Client, identifier: str) -> None:
    """One bearer or join token, by its id or its whole text. Raises NotFound, StoreError."""
    parts = identifier.split(".")
    await revoke_token(KubernetesStore(client), parts[1] if len(parts) > 1 else identifier)


async def end_user(client: Client, user: str) -> int:
    """All that `user` has: certificates issued until now, and tokens; how many of these. Raises StoreError."""
    return await revoke_user(KubernetesStore(client), user, time.time())
