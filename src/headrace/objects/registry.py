"""The kinds this home serves, built-in and by CustomResourceDefinition, with what discovery tells of each."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.api.kinds import Kind


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
class Served:
    """One served kind. `subresources` such as status, scale, binding, resize; `schema` is its OpenAPI v3 schema."""

    kind: Kind
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    subresources: tuple[str, ...] = ()
    list_kind: str = ""
    columns: tuple[Column, ...] = ()
    custom: bool = False


@dataclass(slots=True)
class Registry:
    """Lookups by URL parts; changes when a CRD is established, changed or removed."""

    generation: int = 0
    served: dict[tuple[str, str, str], Served] = field(default_factory=dict)

    def lookup(self, group: str, version: str, plural: str) -> Served | None:
        return self.served.get((group, version, plural))

    def all(self) -> Iterable[Served]:
        return self.served.values()

    def openapi_schemas(self, group: str, version: str) -> dict[str, Any]:
        """components.schemas of /openapi/v3 for one group and version, every $ref inside resolved there too."""
        raise NotImplementedError
