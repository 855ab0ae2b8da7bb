"""LocalStore: the Store over rows, with all that makes an object an object. HTTP is a thin shell around it."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal

from headrace.api.kinds import Kind
from headrace.api.objects import Fields, Object
from headrace.store.protocol import Deletion, Listing, WatchEvent
from headrace.store.rows import Rows

PatchType = Literal["merge", "json", "strategic"]
Validation = Literal["Strict", "Warn", "Ignore"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who writes, and how. `user` is authorised already; `warn` collects warnings for the answer's headers."""

    user: str = "system:headrace"
    field_manager: str = "headrace"
    validation: Validation = "Strict"
    dry_run: bool = False
    warn: Callable[[str], None] = lambda _: None


class LocalStore:
    """Implements `headrace.store.protocol.Store`; the methods below it are what HTTP needs beyond that."""

    def __init__(self, rows: Rows, *, wall: Callable[[], float], new_uid: Callable[[], str], caller: Caller) -> None:
        """`wall`: seconds since the epoch. `new_uid`: a fresh UUID. Passed in so that histories can be simulated."""
        raise NotImplementedError

    def acting_as(self, caller: Caller) -> "LocalStore":
        """The same store, writing as somebody else."""
        raise NotImplementedError

    async def get_body(self, kind: Kind, name: str, namespace: str = "") -> bytes:
        """The stored JSON, undecoded."""
        raise NotImplementedError

    async def list_bodies(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, resume: str = ""
    ) -> tuple[list[bytes], str, str, int | None]:
        """Bodies, revision, resume token, remaining count: what a list answer is spliced from."""
        raise NotImplementedError

    def watch_bodies(
        self, kind: Kind, namespace: str = "", *, since: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[tuple[str, bytes]]:
        """(event type, body) pairs, as `watch`."""
        raise NotImplementedError

    async def replace(
        self, kind: Kind, name: str, namespace: str, obj: Fields, *, subresource: str | None = None
    ) -> Object:
        """PUT: the whole object, or its subresource; metadata.resourceVersion in it is a precondition."""
        raise NotImplementedError

    async def patch_document(
        self,
        kind: Kind,
        name: str,
        namespace: str,
        patch_type: PatchType,
        document: object,
        *,
        subresource: str | None = None,
    ) -> Object:
        """PATCH with any of three documents; retried while others write in between."""
        raise NotImplementedError

    async def delete_collection(
        self, kind: Kind, namespace: str, *, labels: str, fields: str, deletion: Deletion
    ) -> Listing:
        raise NotImplementedError


__all__ = ["Caller", "LocalStore", "PatchType", "Validation", "WatchEvent"]
