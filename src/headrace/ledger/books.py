"""The books: a fold over objects. There is no other record of who holds what.

The store's writer asks `apply` before it commits an object; that is the only door.
"""

from collections.abc import Mapping

from headrace.api.objects import Object
from headrace.ledger.node import Shortfall

Key = tuple[str, str, str]
"""Resource, namespace and name of an object."""


class Books:
    """Mutable, with an undo log. Everything since `mark` can be taken back until `keep`."""

    def mark(self) -> int:
        return 0

    def undo(self, mark: int) -> None:
        """Be exactly what they were at `mark`."""

    def keep(self) -> None:
        """What was applied is committed: forget how to undo it."""

    def enter(self, key: Key, obj: Object) -> None:
        """A stored object, at the start."""

    def apply(self, key: Key, after: Object | None, revision: int, confirmed: bool = True) -> Shortfall | None:
        """Enter one write; a wish that does not fit changes nothing and is answered with a Shortfall."""
        return None

    def departed_node(self, revision: int) -> str | None:
        """The node that is still charged for what was deleted at `revision`, if any."""
        return None

    def confirmed(self, node: str) -> int | None:
        """Deletions up to this revision are confirmed by the node; None: there is no such node."""
        return 0

    def nodes(self) -> Mapping[str, object]:
        return {}


GUARDED = frozenset({"pods", "nodes", "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"})
"""Resources that the books read; writes to others pass unseen."""
