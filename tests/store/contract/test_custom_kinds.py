"""Custom kinds: served as soon as they are defined, pruned, defaulted, validated, removed with their definition."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from headrace.api import kinds
from headrace.store.protocol import BadRequest, Invalid, NotFound, Store
from tests.store.contract.samples import WIDGET, widgets

SECONDS = 20


@pytest.fixture(autouse=True)
async def defined(store: Store) -> AsyncIterator[None]:
    await store.create(kinds.CUSTOM_RESOURCE_DEFINITION, widgets())

    async def served() -> None:
        while True:
            try:
                await store.list(WIDGET)
            except NotFound:
                await asyncio.sleep(0.05)
            else:
                return

    await asyncio.wait_for(served(), SECONDS)
    yield
    with contextlib.suppress(NotFound):
        await store.delete(kinds.CUSTOM_RESOURCE_DEFINITION, WIDGET.resource)
    await removed(store)


async def removed(store: Store) -> None:
    async def looked() -> None:
        while True:
            try:
                await store.get(kinds.CUSTOM_RESOURCE_DEFINITION, WIDGET.resource)
            except NotFound:
                return
            await asyncio.sleep(0.05)

    await asyncio.wait_for(looked(), SECONDS)


async def test_a_definition_is_established(store: Store) -> None:
    definition = await store.get(kinds.CUSTOM_RESOURCE_DEFINITION, WIDGET.resource)
    states = {each["type"]: each["status"] for each in definition["status"]["conditions"]}
    assert (states["NamesAccepted"], states["Established"]) == ("True", "True")
    assert definition["status"]["storedVersions"] == ["v1"]
    assert definition["spec"]["names"]["listKind"] == "WidgetList"


async def test_defaults_are_filled_in(store: Store, namespace: str) -> None:
    made = await store.create(WIDGET, {"metadata": {"name": "a"}, "spec": {"size": 1}}, namespace)
    assert made["spec"] == {"size": 1, "colour": "red"}
    assert made["metadata"]["generation"] == 1


async def test_what_the_schema_leaves_open_is_kept(store: Store, namespace: str) -> None:
    spec = {"size": 1, "free": {"any": [1, {"thing": None}]}, "port": "http"}
    made = await store.create(WIDGET, {"metadata": {"name": "a"}, "spec": spec}, namespace)
    assert made["spec"]["free"] == spec["free"]
    other = await store.patch(WIDGET, "a", namespace, fields={"spec": {"port": 80}})
    assert other["spec"]["port"] == 80


async def test_an_unknown_field_is_refused(store: Store, namespace: str) -> None:
    words = r'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec\.weight"'
    with pytest.raises(BadRequest, match=words):
        await store.create(WIDGET, {"metadata": {"name": "a"}, "spec": {"size": 1, "weight": 2}}, namespace)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, r"spec\.size: Required value"),
        ({"size": 0}, r"spec\.size: Invalid value: 0: spec\.size in body should be greater than or equal to 1"),
        (
            {"size": "big"},
            r'spec\.size: Invalid value: "string": spec\.size in body must be of type integer: "string"',
        ),
        (
            {"size": 1, "colour": "blue"},
            r'spec\.colour: Unsupported value: "blue": supported values: "red", "green"',
        ),
    ],
    ids=["a field is missing", "a number is too small", "a type is wrong", "a value is not among those listed"],
)
async def test_a_value_that_breaks_the_schema_is_named(store: Store, namespace: str, spec: dict, words: str) -> None:
    with pytest.raises(Invalid, match=r'^Widget\.contract\.headrace\.dev "a" is invalid: ' + words):
        await store.create(WIDGET, {"metadata": {"name": "a"}, "spec": spec}, namespace)


async def test_the_status_has_a_door_of_its_own(store: Store, namespace: str) -> None:
    given = {"metadata": {"name": "a"}, "spec": {"size": 1}, "status": {"replicas": 7}}
    made = await store.create(WIDGET, given, namespace)
    assert "status" not in made
    fields = {"spec": {"size": 9}, "status": {"replicas": 2}}
    changed = await store.patch(WIDGET, "a", namespace, fields=fields, subresource="status")
    assert (changed["spec"]["size"], changed["status"], changed["metadata"]["generation"]) == (1, {"replicas": 2}, 1)


async def test_it_scales(store: Store, namespace: str) -> None:
    await store.create(WIDGET, {"metadata": {"name": "a"}, "spec": {"size": 1, "replicas": 2}}, namespace)
    scale = await store.patch(WIDGET, "a", namespace, fields={"spec": {"replicas": 5}}, subresource="scale")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 5)
    assert (await store.get(WIDGET, "a", namespace))["spec"]["replicas"] == 5


async def test_a_definition_goes_with_its_objects(store: Store, namespace: str) -> None:
    await store.create(WIDGET, {"metadata": {"name": "a"}, "spec": {"size": 1}}, namespace)
    await store.delete(kinds.CUSTOM_RESOURCE_DEFINITION, WIDGET.resource)
    await removed(store)
    with pytest.raises(NotFound):
        await store.list(WIDGET)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spec: spec.update(group="dotless"), "should be a domain with at least one dot"),
        (lambda spec: spec["versions"][0].update(storage=False), "must have exactly one version marked as storage"),
        (
            lambda spec: spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].pop("type"),
            r"properties\[spec\]\.type: Required value: must not be empty for specified object fields",
        ),
        (lambda spec: spec.update(scope="Everywhere"), r'spec\.scope: Unsupported value: "Everywhere"'),
    ],
    ids=["group", "storage version", "structural schema", "scope"],
)
async def test_a_definition_that_cannot_be_served_is_refused(store: Store, change: object, words: str) -> None:
    definition = widgets()
    definition["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    change(definition["spec"])
    definition["metadata"]["name"] = f"gadgets.{definition['spec']['group']}"
    with pytest.raises(Invalid, match=words):
        await store.create(kinds.CUSTOM_RESOURCE_DEFINITION, definition)
