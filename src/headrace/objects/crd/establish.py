"""From a CustomResourceDefinition to the kinds it serves, and the registry kept in step with the definitions."""

from typing import Any

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.api.objects import Object
from headrace.objects.bodies import decode
from headrace.objects.crd.custom import CustomStrategy
from headrace.objects.crd.definition import is_established, storage_version
from headrace.objects.registry import Column, Registry, ScalePaths, Served
from headrace.objects.validation.resizing import RULES
from headrace.store.rows import Rows, Write


def load(registry: Registry, rows: Rows) -> None:
    """Serve what the definitions in the file define."""
    for row in rows.page(kinds.CUSTOM_RESOURCE_DEFINITION.resource).rows:
        establish(registry, decode(row.body))


def establish(registry: Registry, definition: Object) -> None:
    """Serve what the definition now says, in place of what it said before."""
    withdraw(registry, definition)
    if is_established(definition):
        registry.add(*(_served(definition, each) for each in definition["spec"]["versions"] if each.get("served")))


def follow(registry: Registry, write: Write) -> None:
    """After a write of a definition: the registry is as the file is."""
    if write.body is None:
        withdraw(registry, write.object)
    else:
        establish(registry, write.object)


def withdraw(registry: Registry, definition: Object) -> None:
    registry.drop(definition["spec"]["group"], definition["spec"]["names"]["plural"])


def _served(definition: Object, version: dict[str, Any]) -> Served:
    names = definition["spec"]["names"]
    kind = _kind(definition, version["name"])
    at_rest = storage_version(definition)
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    selectable = tuple(each["jsonPath"].lstrip(".") for each in version.get("selectableFields") or ())
    return Served(
        kind,
        names["singular"],
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        subresources=tuple(sorted(subresources)),
        list_kind=names["listKind"],
        columns=tuple(_column(each) for each in version.get("additionalPrinterColumns") or ()),
        custom=True,
        at_rest=None if version["name"] == at_rest else _kind(definition, at_rest),
        scale=None if scale is None else _scale(scale),
        schema=schema,
        ending="deletionTimestamp" in definition["metadata"],
        strategy=CustomStrategy(
            schema, has_status="status" in subresources, selectable=selectable, rule=RULES.get(kind.resource)
        ),
    )


def _kind(definition: Object, version: str) -> Kind:
    spec, names = definition["spec"], definition["spec"]["names"]
    return Kind(spec["group"], version, names["kind"], names["plural"], spec["scope"] == "Namespaced")


def _column(column: dict[str, Any]) -> Column:
    return Column(
        column["name"],
        column["type"],
        column["jsonPath"],
        column.get("priority", 0),
        column.get("description", ""),
        column.get("format", ""),
    )


def _scale(scale: dict[str, str]) -> ScalePaths:
    selector = scale.get("labelSelectorPath")
    return ScalePaths(
        _path(scale["specReplicasPath"]), _path(scale["statusReplicasPath"]), _path(selector) if selector else None
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.strip(".").split("."))
