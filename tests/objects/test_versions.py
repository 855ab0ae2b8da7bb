"""A custom kind of several versions: each shows all objects, in whatever version they were written."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from headrace.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from headrace.objects.local import LocalStore

V1 = Kind("example.com", "v1", "Valve", "valves")
V2 = replace(V1, version="v2")
VERSIONS = (V1, V2)


def definition(at_rest: Kind, *, served: tuple[Kind, ...] = VERSIONS) -> dict[str, Any]:
    fields = {"spec": {"type": "object", "properties": {"open": {"type": "boolean"}}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": fields}}
    return {
        "metadata": {"name": "valves.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "valves", "singular": "valve", "kind": "Valve", "listKind": "ValveList"},
            "versions": [
                {"name": kind.version, "served": kind in served, "storage": kind == at_rest, "schema": schema}
                for kind in VERSIONS
            ],
        },
    }


async def shown(store: LocalStore, kind: Kind, name: str) -> list[str]:
    """The version in a get, a list, a change that changes nothing, one that does, and a watch."""
    got = await store.get(kind, name, "default")
    (listed,) = (await store.list(kind, "default", fields=f"metadata.name={name}")).items
    same = await store.patch(kind, name, "default", fields={"spec": got["spec"]})
    changed = await store.patch(kind, name, "default", fields={"spec": {"open": not got["spec"]["open"]}})
    watch = store.watch(kind, "default", since=got["metadata"]["resourceVersion"], fields=f"metadata.name={name}")
    async with asyncio.timeout(10), aclosing(watch) as events:
        event = await _first(events)
    return [each["apiVersion"] for each in (got, listed, same, changed, event)]


async def _first(events: Any) -> Any:
    async for event in events:
        if event.type != "BOOKMARK":
            return event.object
    raise AssertionError("the watch ended")


@pytest.mark.parametrize("at_rest", [pytest.param(kind, id=f"at rest in {kind.version}") for kind in VERSIONS])
@pytest.mark.parametrize("written", [pytest.param(kind, id=f"written in {kind.version}") for kind in VERSIONS])
@pytest.mark.parametrize("kind", [pytest.param(kind, id=f"read in {kind.version}") for kind in VERSIONS])
async def test_an_object_is_shown_in_the_version_that_was_asked_for(
    store: LocalStore, at_rest: Kind, written: Kind, kind: Kind
) -> None:
    await store.create(CUSTOM_RESOURCE_DEFINITION, definition(at_rest))
    await store.create(written, {"metadata": {"name": "a"}, "spec": {"open": True}}, "default")
    assert await shown(store, kind, "a") == [kind.api_version] * 5


async def test_an_object_is_shown_and_changed_in_both_versions_when_they_change_places(store: LocalStore) -> None:
    await store.create(CUSTOM_RESOURCE_DEFINITION, definition(V1))
    await store.create(V1, {"metadata": {"name": "a"}, "spec": {"open": True}}, "default")
    async with aclosing(store.watch(V1, "default", since="1")) as events:
        assert (await _first(events))["apiVersion"] == V1.api_version
        await store.patch(CUSTOM_RESOURCE_DEFINITION, "valves.example.com", fields=definition(V2))
        for kind in VERSIONS:
            assert await shown(store, kind, "a") == [kind.api_version] * 5
        await store.create(V2, {"metadata": {"name": "b"}, "spec": {"open": True}}, "default")
        found = [await _first(events) for _ in range(3)]
    assert [(each["apiVersion"], each["metadata"]["name"]) for each in found] == [
        (V1.api_version, name) for name in ("a", "a", "b")
    ]


@pytest.mark.parametrize("served", [(V1,), (V2,), VERSIONS])
async def test_each_kind_is_found_once_where_all_of_its_objects_are_looked_for(
    store: LocalStore, served: tuple[Kind, ...]
) -> None:
    """A kind whose resting version is not served was left out: its objects outlived their namespace and owners."""
    await store.create(CUSTOM_RESOURCE_DEFINITION, definition(V1, served=served))
    found = [each.kind for each in store.registry.at_rest() if each.custom]
    assert found == [V1 if V1 in served else V2]
