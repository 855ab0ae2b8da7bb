"""What lies below objects: rows of bytes under one revision counter, committed by one writer, watched after the commit.

`headrace.store.sqlite` implements it. What each write makes are tuples: frozen dataclasses cost three times as much.
A body is kept in two halves, because the revision that belongs between them is given out inside the transaction.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.api.objects import Object
from headrace.ledger.devices import Pool, PoolKey
from headrace.ledger.node import Ledger


class Key(NamedTuple):
    """`resource` as `Kind.resource` gives it: `pods`, `deployments.apps`."""

    resource: str
    namespace: str
    name: str


class Body(NamedTuple):
    """JSON with a gap where metadata.resourceVersion's digits go."""

    head: bytes
    tail: bytes

    def at(self, revision: int) -> bytes:
        return b"%s%d%s" % (self.head, revision, self.tail)


class Write(NamedTuple):
    """One object's change. `expected` is the revision the row must be at, 0 if it must not exist. `body=None` deletes.

    `object` is the decoded object after the write (before it, for a delete): the ledger's guard reads it, nobody else.
    `confirmed`: a delete by the agent that ran it (or of what never ran): its charge ends with the row. A delete that
    is not confirmed leaves the charge until the node reports at a later revision.
    """

    key: Key
    expected: int
    body: Body | None
    object: Object
    confirmed: bool = True


class Row(NamedTuple):
    """A tuple as SQLite gives it, since a page has hundreds of them."""

    resource: str
    namespace: str
    name: str
    revision: int
    body: bytes

    @property
    def key(self) -> Key:
        return Key(self.resource, self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[Row]
    revision: int
    more: bool
    remaining: int


class Change(NamedTuple):
    """A committed write. `body` is None for a delete; `before` is None for a create. `revision` is the new one.

    `gone` is what a watcher is told of a delete: the last body, at the deletion's revision.
    """

    key: Key
    revision: int
    body: bytes | None
    before: bytes | None
    gone: bytes | None = None

    @property
    def size(self) -> int:
        """Bytes of memory that its bodies take."""
        return len(self.body or b"") + len(self.before or b"") + len(self.gone or b"")


Offer = Callable[[Sequence[Change]], int]
"""Takes so many of these changes, the first ones; the others are read in turn. What it raises ends its own watch."""


class Rows(Protocol):
    """One file of rows. Raises Conflict, Refused, Gone, Unavailable of `headrace.store.protocol`."""

    @property
    def revision(self) -> int:
        """The last committed revision."""
        ...

    @property
    def ledgers(self) -> Mapping[str, Ledger]:
        """Of all nodes, as of the last commit."""
        ...

    @property
    def pools(self) -> Mapping[PoolKey, Pool]:
        """All devices and who has them, as of the last commit."""
        ...

    def get(self, key: Key) -> Row | None: ...

    def page(
        self,
        resource: str,
        namespace: str = "",
        *,
        after: Key | None = None,
        limit: int = 0,
        at: int = 0,
        counted: bool = True,
    ) -> Page:
        """Rows in key order, as they were at revision `at` (0: now). Raises Gone if `at` is compacted.

        Without `counted` nobody counts what remains, which takes as long as there are rows.
        """
        ...

    def commit(self, write: Write, connection: int | None = None) -> Awaitable[int]:
        """The revision of the write, once it is durable. Writes of many callers share one sync.

        `connection`: the same number for writes of which each begins after the one before has ended. Who writes alone
        is not kept waiting for company then.
        """
        ...

    def watch(
        self, resource: str, namespace: str = "", *, since: int, offer: Offer | None = None
    ) -> AsyncGenerator[Change | int, None]:
        """Changes after `since`, in order; an int is a bookmark: nothing up to that revision is still to come.

        Close it when you stop before its end: until then events are kept for you.

        While the reader waits for more, `offer` is called with what a commit changed and says how many of these it
        takes, so that nobody has to be woken. Raises Gone if `since` is compacted, and when the reader is too slow.
        """
        ...

    def remind(self) -> None:
        """Give every watcher a bookmark now, so that one that sees no changes can still resume from near here."""
        ...

    def check(self, write: Write) -> Awaitable[int]:
        """What `commit` would refuse, without writing: dry runs pass the same door."""
        ...

    async def close(self) -> None: ...


Writes = Sequence[Write]
