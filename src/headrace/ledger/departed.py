"""What was deleted before its node confirmed that it is gone: it is still charged, under a name that says so."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.api.amounts import Amounts
from headrace.api.kinds import POD
from headrace.api.objects import Object
from headrace.ledger.devices import ClaimFacts, Grant
from headrace.ledger.nodes import NodeFacts
from headrace.ledger.pods import Contribution, charged

UNCONFIRMED = ", not confirmed)"


@dataclass(frozen=True, slots=True)
class Departed:
    """`revision` is the deletion's."""

    revision: int
    node: str
    holder: str
    held: Amounts = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()

    def is_still_charged(self, nodes: Mapping[str, NodeFacts]) -> bool:
        """Until the node confirms a revision that is not older, or is deleted itself."""
        return self.node in nodes and nodes[self.node].confirmed < self.revision


def departed_pod(pod: Contribution, revision: int) -> Departed:
    return Departed(revision, pod.node, _label(pod.holder, revision), pod.held())


def departed_claim(claim: ClaimFacts, node: str, revision: int) -> Departed:
    holder = _label(claim.holder, revision)
    grants = (replace(grant, share=replace(grant.share, owner=holder)) for grant in claim.grants)
    return Departed(revision, node, holder, grants=tuple(grants))


def departed_object(resource: str, obj: Object, node: str, revision: int) -> Departed | None:
    """From what the store kept of it."""
    if resource != POD.resource:
        return departed_claim(ClaimFacts.of(obj), node, revision)
    pod = charged(obj)
    return None if pod is None else departed_pod(pod, revision)


def is_unconfirmed(holder: str) -> bool:
    """Whether this name in a ledger stands for something that was deleted."""
    return holder.endswith(UNCONFIRMED)


def unconfirmed_holder(holder: str) -> str:
    """The name it had while it was there; empty for what has not been deleted."""
    return holder.partition(" (deleted at ")[0] if is_unconfirmed(holder) else ""


def _label(holder: str, revision: int) -> str:
    return f"{holder} (deleted at {revision}{UNCONFIRMED}"
