"""Ending credentials through the API of a running server; they are refused from the write on that ends them."""

import time

from headrace.apiserver.tokens import revoke_token, revoke_user
from headrace.client.http import Client
from headrace.store.kubernetes import KubernetesStore


async def end_token(client: Client, identifier: str) -> None:
    """One bearer or join token, by its id or its whole text. Raises NotFound, StoreError."""
    parts = identifier.split(".")
    await revoke_token(KubernetesStore(client), parts[1] if len(parts) > 1 else identifier)


async def end_user(client: Client, user: str) -> None:
    """All that `user` has: certificates issued until now, bearer and join tokens. Raises StoreError."""
    await revoke_user(KubernetesStore(client), user, time.time())
