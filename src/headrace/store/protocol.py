"""The one door to stored objects. Every home implements `Store`: LocalStore in process, HTTP to us or to Kubernetes.

A write changes one object; there is no transaction over several, so nothing may need one.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from headrace.api.kinds import Kind
from headrace.api.objects import Fields, Object
from headrace.ledger.node import Shortfall

Propagation = Literal["Background", "Foreground", "Orphan"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class StoreError(Exception):
    """A refusal in Kubernetes' words. `reason` and `code` are those of its Status object."""

    reason = "InternalError"
    code = 500


class NotFound(StoreError):
    reason, code = "NotFound", 404


class AlreadyExists(StoreError):
    reason, code = "AlreadyExists", 409


class Conflict(StoreError):
    """The object changed since it was read, or a precondition does not hold: read it again and plan again."""

    reason, code = "Conflict", 409


class Gone(StoreError):
    """The revision asked for is compacted: list again."""

    reason, code = "Expired", 410


class Forbidden(StoreError):
    reason, code = "Forbidden", 403


class Unauthorized(Forbidden):
    """The server does not know the caller, or knows its credential no more: nothing else will be allowed either."""

    reason, code = "Unauthorized", 401


class Unavailable(StoreError):
    """The home cannot answer now (no connection, disk full, stopping): the outcome of a write may be unknown."""

    reason, code = "ServiceUnavailable", 503


class DiskFull(Unavailable):
    """The write did not happen for want of space. Reads go on; writes do again by themselves when space is back."""

    reason, code = "InsufficientStorage", 507


class TooBusy(Unavailable):
    """The write did not happen: too many wait before it. Try again a little later."""

    reason, code = "TooManyRequests", 429


@dataclass(frozen=True, slots=True)
class Cause:
    """One wrong field: Kubernetes' reason (FieldValueInvalid, FieldValueRequired, …), a sentence, the field's path."""

    reason: str
    message: str
    field: str


class Invalid(StoreError):
    """The object breaks rules of its kind. Each cause names the field, the value and what would be right."""

    reason, code = "Invalid", 422

    def __init__(self, message: str, causes: Sequence[Cause] = ()) -> None:
        super().__init__(message)
        self.causes = tuple(causes)


class BadRequest(StoreError):
    """The request itself cannot be understood (malformed patch, unknown selector, wrong kind in the body)."""

    reason, code = "BadRequest", 400


class Refused(StoreError):
    """The write is a wish that does not fit on its node: 403 with causes, reason InsufficientCapacity."""

    reason, code = "Forbidden", 403

    def __init__(self, shortfall: Shortfall, message: str | None = None) -> None:
        super().__init__(message or str(shortfall))
        self.shortfall = shortfall


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects of one snapshot. `resume` continues a list that was cut at `limit`, on the same snapshot."""

    items: list[Object]
    revision: str
    resume: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change in revision order. BOOKMARK objects carry only kind and metadata.resourceVersion."""

    type: EventType
    object: Object


@dataclass(frozen=True, slots=True)
class Preconditions:
    uid: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Deletion:
    """Options of a delete. `grace_seconds=None` is the kind's default (Pods: spec.terminationGracePeriodSeconds)."""

    preconditions: Preconditions = field(default_factory=Preconditions)
    propagation: Propagation | None = None
    grace_seconds: int | None = None
    dry_run: bool = False


class Store(Protocol):
    """What controllers and agents need. `namespace=""` means cluster scope, or all namespaces in list and watch."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object: ...

    async def list(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        resume: str = "",
    ) -> Listing:
        """`labels` and `fields` are selectors as kubectl writes them (`app=web,tier!=db`, `spec.nodeName=node-a`)."""
        ...

    def watch(
        self, kind: Kind, namespace: str = "", *, since: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent]:
        """Changes after revision `since`, in order, each once, with bookmarks. Raises Gone when `since` is compacted.

        May end plainly at any time (a proxy's time-out): resume from the last revision seen.
        """
        ...

    async def create(self, kind: Kind, obj: Fields, namespace: str = "", *, dry_run: bool = False) -> Object: ...

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str = "",
        *,
        fields: Fields,
        version: str | None = None,
        subresource: str | None = None,
        strategic: bool = False,
        dry_run: bool = False,
    ) -> Object:
        """Merge patch (or strategic merge patch) of the named fields only; with `version` only if it still holds."""
        ...

    async def create_subresource(self, kind: Kind, name: str, namespace: str, subresource: str, body: Fields) -> Object:
        """POST to `binding`, `eviction`, `token`; PUT of `scale`."""
        ...

    async def delete(self, kind: Kind, name: str, namespace: str = "", deletion: Deletion = Deletion()) -> Object: ...
