"""Removing a definition: its objects first, then the finalizer that holds it. Each step is safe to repeat."""

import contextlib

from headrace.api import kinds
from headrace.api.objects import Object
from headrace.objects import deletion, writing
from headrace.objects.bodies import decode
from headrace.objects.crd.definition import CLEANUP
from headrace.objects.home import Caller, Home
from headrace.store.protocol import Deletion, NotFound
from headrace.store.rows import Key

DEFINITION = kinds.CUSTOM_RESOURCE_DEFINITION


async def remove_objects(home: Home, name: str, caller: Caller) -> None:
    """Ask for the deletion of all objects of a definition that is being deleted, and let it go when none is left."""
    served = next((each for each in home.registry.all() if each.custom and each.stored.resource == name), None)
    if served is not None:
        for row in home.rows.page(name).rows:
            with contextlib.suppress(NotFound):
                await deletion.delete(home, served, row.key.name, row.key.namespace, Deletion(), caller)
    await settle(home, name, caller)


async def settle(home: Home, name: str, caller: Caller) -> None:
    """Let a definition that is being deleted go, unless it still has objects."""
    row = home.rows.get(Key(DEFINITION.resource, "", name))
    if row is None or CLEANUP not in (decode(row.body)["metadata"].get("finalizers") or ()):
        return
    if not home.rows.page(name, limit=1).rows:
        await writing.update(home, home.served(DEFINITION), writing.Update(name, "", _without_finalizer), caller)


def _without_finalizer(definition: Object) -> Object:
    meta = definition["metadata"]
    meta["finalizers"] = [each for each in meta.get("finalizers") or () if each != CLEANUP]
    return definition


def ending(home: Home) -> list[str]:
    """Definitions whose removal was cut short."""
    rows = home.rows.page(DEFINITION.resource).rows
    return [row.key.name for row in rows if "deletionTimestamp" in decode(row.body)["metadata"]]
