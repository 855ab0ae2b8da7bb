"""Static types, as the checker knows them. Types are values: two are the same exactly when they compare equal."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "bool", "int", "uint", "double", "string", "bytes", "null", "duration", "timestamp",
    "any", "dyn", "error", "list", "map", "type", "struct", "opaque", "parameter",
]  # fmt: skip

_NULLABLE: frozenset[Kind] = frozenset({"opaque", "struct", "any", "duration", "timestamp", "dyn", "null"})


@dataclass(frozen=True, slots=True)
class Type:
    """`name` is the name that `type()` shows at run time; for a type parameter it is the parameter's name."""

    kind: Kind
    name: str
    parameters: tuple["Type", ...] = ()

    def __str__(self) -> str:
        """The text of Kubernetes' messages about a result (`map(string, dyn)`)."""
        if self.kind == "parameter":
            return f"<{self.name}>"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


BOOL = Type("bool", "bool")
INT = Type("int", "int")
UINT = Type("uint", "uint")
DOUBLE = Type("double", "double")
STRING = Type("string", "string")
BYTES = Type("bytes", "bytes")
NULL = Type("null", "null_type")
DURATION = Type("duration", "google.protobuf.Duration")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")
ANY = Type("any", "google.protobuf.Any")
DYN = Type("dyn", "dyn")
ERROR = Type("error", "error")
TYPE = Type("type", "type")
QUANTITY = Type("struct", "kubernetes.Quantity")
SEMVER = Type("struct", "kubernetes.Semver")
URL = Type("struct", "kubernetes.URL")
FORMAT = Type("struct", "kubernetes.NamedFormat")
IP = Type("opaque", "net.IP")
CIDR = Type("opaque", "net.CIDR")


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", "type", (value,))


def parameter(name: str) -> Type:
    return Type("parameter", name)


def is_dyn(kind: Type) -> bool:
    return kind.kind in ("dyn", "any")


def is_dyn_or_error(kind: Type) -> bool:
    return kind.kind in ("dyn", "any", "error")


def is_optional(kind: Type) -> bool:
    return kind.kind == "opaque" and kind.name == "optional_type"


def is_nullable(kind: Type) -> bool:
    """Whether null may stand where this type is wanted."""
    return kind.kind in _NULLABLE


def shown(kind: Type) -> str:
    """The text of the checker's own messages, where well-known types have short names."""
    short = {"any": "any", "duration": "duration", "timestamp": "timestamp", "error": "!error!", "null": "null"}
    if kind.kind in short:
        return short[kind.kind]
    if kind.kind == "parameter" or not kind.parameters:
        return kind.name
    return f"{kind.name}({', '.join(map(shown, kind.parameters))})"


def equivalent(one: Type, other: Type) -> bool:
    """Equal up to the names of type parameters."""
    if one.kind != other.kind or len(one.parameters) != len(other.parameters):
        return False
    if one.kind != "parameter" and one.name != other.name:
        return False
    return all(map(equivalent, one.parameters, other.parameters))
