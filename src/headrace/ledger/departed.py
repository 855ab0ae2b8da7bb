"""What was let go before its node confirmed that it is gone: it is still charged, under a name that says so.

A Pod deleted by force is charged until its node confirms. The devices of a claim are charged as long as a Pod that used
them is, whatever took them from the claim: its deletion, its deallocation, or the end of the Pod's reservation.
"""

from collections.abc import Container, Mapping
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
    """`revision` is the deletion's, or that of the write that let go. `uids` are the Pod's own, or those of the Pods
    that used the claim; a claim's `node` is empty."""

    revision: int
    node: str
    holder: str
    uids: frozenset[str]
    held: Amounts = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()

    def is_still_charged(self, nodes: Mapping[str, NodeFacts], charged: Container[str]) -> bool:
        """A Pod until its node confirms a revision that is not older, or is deleted; a claim's devices as long as one
        of its Pods is `charged` (uids)."""
        if self.grants:
            return any(uid in charged for uid in self.uids)
        return self.node in nodes and nodes[self.node].confirmed < self.revision


def departed_pod(pod: Contribution, revision: int) -> Departed:
    return Departed(revision, pod.node, _label(pod.holder, revision), frozenset((pod.uid,)), pod.held())


def departed_claim(claim: ClaimFacts, revision: int) -> Departed:
    holder = f"{claim.holder} (let go at {revision}{UNCONFIRMED}"
    grants = (replace(grant, share=replace(grant.share, owner=holder)) for grant in claim.grants)
    return Departed(revision, "", holder, claim.users, grants=tuple(grants))


def left_behind(before: ClaimFacts, after: ClaimFacts | None) -> frozenset[str]:
    """The Pods (uids) that had devices of the claim and by this write have them no more."""
    if not before.grants:
        return frozenset()
    if after is None or any(grant not in after.grants for grant in before.grants):
        return before.users
    return before.users - after.users


def departed_object(resource: str, obj: Object, revision: int) -> Departed | None:
    """From what the store kept of it."""
    if resource != POD.resource:
        return departed_claim(ClaimFacts.of(obj), revision)
    pod = charged(obj)
    return None if pod is None else departed_pod(pod, revision)


def is_unconfirmed(holder: str) -> bool:
    """Whether this name in a ledger stands for something that was let go and is still charged."""
    return holder.endswith(UNCONFIRMED)


def unconfirmed_holder(holder: str) -> str:
    """The name it had while it was there; empty for what has not been deleted."""
    return holder.partition(" (deleted at ")[0] if is_unconfirmed(holder) else ""


def _label(holder: str, revision: int) -> str:
    return f"{holder} (deleted at {revision}{UNCONFIRMED}"
