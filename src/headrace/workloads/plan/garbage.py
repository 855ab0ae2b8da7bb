"""Garbage collection by ownerReferences: what nobody owns any more goes; who deletes in the foreground waits.

The rules are kube-controller-manager's: an object goes when every owner it names is gone (or waits for it to go); an
owner with the foregroundDeletion finalizer waits for dependents that block it; one with orphan sets them free.
"""

from dataclasses import dataclass
from enum import Enum

from headrace.api.kinds import Kind
from headrace.api.objects import Fields
from headrace.runtime.actions import Action, Delete, Patch
from headrace.store.protocol import Deletion, Preconditions, Propagation

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Owner(Enum):
    """What became of an owner that an object names."""

    SOLID = "there, or of a kind nobody watches here: keep what it owns"
    WAITING = "being deleted in the foreground: it waits for what it owns"
    ABSENT = "gone, or another object under the same name"


@dataclass(frozen=True, slots=True)
class Item:
    """An object as far as ownership goes. `references` are its metadata.ownerReferences, unchanged."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: str
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    references: tuple[Fields, ...] = ()

    def blocks(self, owner_uid: str) -> bool:
        return any(each.get("uid") == owner_uid and bool(each.get("blockOwnerDeletion")) for each in self.references)


@dataclass(frozen=True, slots=True)
class Seen:
    """`owners` answers to `item.references`, in their order; `dependents` name this item as an owner."""

    item: Item
    owners: tuple[Owner, ...] = ()
    dependents: tuple[Item, ...] = ()


def plan(seen: Seen, now: float) -> tuple[Action, ...]:
    """One object's part: its dependents if it is being deleted, its own end if its owners are gone."""
    del now
    item = seen.item
    if item.deleting and ORPHAN in item.finalizers:
        return _orphan(item, seen.dependents)
    if item.deleting and FOREGROUND in item.finalizers:
        return _foreground(item, seen.dependents)
    if item.deleting or not item.references:
        return ()
    return _as_dependent(item, seen.owners, seen.dependents)


def _orphan(owner: Item, dependents: tuple[Item, ...]) -> tuple[Action, ...]:
    if dependents:
        return tuple(_without_owners(each, {owner.uid}) for each in dependents)
    return (_without_finalizer(owner, ORPHAN),)


def _foreground(owner: Item, dependents: tuple[Item, ...]) -> tuple[Action, ...]:
    """Dependents see by themselves that their owner waits; here it is only decided when the wait is over."""
    if any(each.blocks(owner.uid) for each in dependents):
        return ()
    return (_without_finalizer(owner, FOREGROUND),)


def _as_dependent(item: Item, owners: tuple[Owner, ...], dependents: tuple[Item, ...]) -> tuple[Action, ...]:
    if Owner.SOLID in owners:
        leaving = {
            str(reference.get("uid"))
            for reference, owner in zip(item.references, owners, strict=True)
            if owner is not Owner.SOLID
        }
        return (_without_owners(item, leaving),) if leaving else ()
    blocking = any(each.get("blockOwnerDeletion") for each in item.references)
    if Owner.WAITING in owners and blocking and any(FOREGROUND in each.finalizers for each in dependents):
        # What it owns waits for it, as it would for what it owns: owners of each other would wait for ever.
        freed = [{**each, "blockOwnerDeletion": False} for each in item.references]
        return (_metadata_patch(item, {"ownerReferences": freed}),)
    propagation: Propagation = "Background"
    if ORPHAN in item.finalizers:
        propagation = "Orphan"
    elif FOREGROUND in item.finalizers or (Owner.WAITING in owners and dependents):
        propagation = "Foreground"
    deletion = Deletion(Preconditions(item.uid, item.version), propagation)
    return (Delete(item.kind, item.namespace, item.name, deletion),)


def _without_owners(item: Item, uids: set[str]) -> Patch:
    kept = [dict(each) for each in item.references if str(each.get("uid")) not in uids]
    return _metadata_patch(item, {"ownerReferences": kept or None})


def _without_finalizer(item: Item, finalizer: str) -> Patch:
    return _metadata_patch(item, {"finalizers": [each for each in item.finalizers if each != finalizer] or None})


def _metadata_patch(item: Item, fields: Fields) -> Patch:
    return Patch(item.kind, item.namespace, item.name, {"metadata": fields}, item.version)
