"""The kinds this home serves, built-in and by CustomResourceDefinition, with what discovery tells of each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.api.kinds import Kind
from headrace.api.objects import Object
from headrace.objects import schemas
from headrace.objects.strategy import Strategy

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column of a CRD (additionalPrinterColumns)."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    description: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows, as field names from the object's root."""

    spec_replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] | None = ("spec", "selector")


@dataclass(frozen=True, slots=True)
class Served:
    """One served kind. `subresources` such as status, scale, binding, resize; `schema` is its OpenAPI v3 schema.

    `at_rest` is the kind whose rows it shows: itself, but for further versions and groups of the same objects.
    """

    kind: Kind
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[str, ...] = ()
    list_kind: str = ""
    columns: tuple[Column, ...] = ()
    custom: bool = False
    at_rest: Kind | None = None
    scale: ScalePaths | None = None
    schema: dict[str, Any] | None = None
    strategy: Strategy = field(default_factory=Strategy, compare=False)
    ending: bool = False
    """Its definition is being deleted: no new objects."""
    read: Callable[[Object], Object] | None = None
    write: Callable[[Object], Object] | None = None

    @property
    def stored(self) -> Kind:
        return self.at_rest or self.kind

    @property
    def beginning(self) -> bytes:
        """How the body of an object begins that was written in this version."""
        return b'{"apiVersion":"%s",' % self.kind.api_version.encode()


@dataclass(slots=True)
class Registry:
    """Lookups by URL parts; changes when a CRD is established, changed or removed."""

    generation: int = 0
    served: dict[tuple[str, str, str], Served] = field(default_factory=dict)

    def lookup(self, group: str, version: str, plural: str) -> Served | None:
        return self.served.get((group, version, plural))

    def of(self, kind: Kind) -> Served | None:
        return self.served.get((kind.group, kind.version, kind.plural))

    def all(self) -> Iterable[Served]:
        return self.served.values()

    def at_rest(self) -> Iterable[Served]:
        """Each stored kind once, in the version that it rests in if that one is served."""
        found: dict[Kind, Served] = {}
        for each in self.served.values():
            if each.at_rest is None:
                found[each.kind] = each
            else:
                found.setdefault(each.at_rest, each)
        return found.values()

    def add(self, *kinds: Served) -> None:
        for each in kinds:
            self.served[each.kind.group, each.kind.version, each.kind.plural] = each
        self.generation += 1

    def drop(self, group: str, plural: str) -> None:
        """All versions of a custom kind."""
        for key in [key for key, each in self.served.items() if each.custom and key[0] == group and key[2] == plural]:
            del self.served[key]
        self.generation += 1

    def openapi_schemas(self, group: str, version: str) -> dict[str, Any]:
        """components.schemas of /openapi/v3 for one group and version, every $ref inside resolved there too."""
        names = set(schemas.ALWAYS)
        custom: dict[str, Any] = {}
        for each in self.served.values():
            if (each.kind.group, each.kind.version) != (group, version):
                continue
            if each.custom:
                custom |= custom_schemas(each)
            else:
                names |= schemas.names_of(each.kind, each.subresources)
        return schemas.described(names) | custom


def custom_schema_name(kind: Kind) -> str:
    """`ai.pingpong.test.v1.TestResource`: how Kubernetes names the schema of a custom kind."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def custom_schemas(served: Served) -> dict[str, Any]:
    """The schema of a custom kind and of its list, with what every object has."""
    kind = served.kind
    name = custom_schema_name(kind)
    gvk = {"group": kind.group, "version": kind.version}
    whole = dict(served.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    object_meta = {"allOf": [{"$ref": schemas.REF + schemas.META + "ObjectMeta"}]}
    whole["properties"] = {
        **whole.get("properties", {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": object_meta,
    }
    whole["x-kubernetes-group-version-kind"] = [{**gvk, "kind": kind.kind}]
    items = {"type": "array", "items": {"allOf": [{"$ref": schemas.REF + name}]}}
    listing = {
        "type": "object",
        "description": f"{served.list_kind} is a list of {kind.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "items": items,
            "metadata": {"allOf": [{"$ref": schemas.REF + schemas.META + "ListMeta"}]},
        },
        "x-kubernetes-group-version-kind": [{**gvk, "kind": served.list_kind}],
    }
    return {name: whole, f"{name}List": listing}
