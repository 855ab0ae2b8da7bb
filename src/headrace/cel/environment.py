"""What an expression may name: variables, object fields, types, functions, macros; and how large each may be.

Device selectors have three environments (`headrace.cel.device`); other users of the engine make their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.cel import types
from headrace.cel.declarations import Function, merged
from headrace.cel.libraries import (
    authorization,
    conversions,
    formats,
    lists,
    networks,
    operators,
    optionals,
    quantities,
    regexes,
    semvers,
    sets,
    strings,
    times,
    urls,
)
from headrace.cel.macros import MACROS, Macro
from headrace.cel.types import Type

# Names that stand for types; those of Kubernetes' own objects do not.
TYPE_NAMES: dict[str, Type] = {
    kind.name: kind
    for kind in (
        types.BOOL, types.BYTES, types.DOUBLE, types.DURATION, types.INT, types.list_of(types.DYN),
        types.map_of(types.DYN, types.DYN), types.NULL, types.STRING, types.TIMESTAMP, types.TYPE, types.UINT,
        types.optional_of(types.DYN), types.IP, types.CIDR,
    )
}  # fmt: skip

_COMMON: tuple[tuple[Function, ...], ...] = (
    operators.FUNCTIONS, conversions.FUNCTIONS, times.FUNCTIONS, urls.FUNCTIONS, regexes.FUNCTIONS,
)  # fmt: skip
_LATER: tuple[tuple[Function, ...], ...] = (
    sets.FUNCTIONS, networks.FUNCTIONS, formats.FUNCTIONS, semvers.FUNCTIONS, lists.EXTENSION,
)  # fmt: skip
_OLD_LISTS = (lists.KUBERNETES, authorization.FUNCTIONS, optionals.FUNCTIONS, quantities.FUNCTIONS, strings.FUNCTIONS)

# Kubernetes 1.37 admits what 1.36 knows, and evaluates what any version knows: that orders the overloads differently.
ADMISSION = merged([*_COMMON, *_OLD_LISTS, *_LATER])
STORED = merged([*_COMMON, *_OLD_LISTS[1:], *_LATER, lists.KUBERNETES, (lists.INCLUDES,)])
ADMISSION_WITH_INCLUDES = merged([[*ADMISSION.values()], (lists.INCLUDES,)])


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The largest an input may be (characters, entries), by where it lies: fields by name, `@items` for any other."""

    largest: int
    fields: Mapping[str, "Sizes"] = field(default_factory=dict)
    keys: "Sizes | None" = None
    items: "Sizes | None" = None
    any_field: bool = False

    def at(self, path: tuple[str, ...]) -> "Sizes | None":
        """What lies at `("attributes", "@values", "model")` below this, or None."""
        found: Sizes | None = self
        for step in path:
            assert found is not None
            if step in ("@items", "@values"):
                found = found.items
            elif step == "@keys":
                found = found.keys
            else:
                found = found.fields.get(step) or (found.items if found.any_field else None)
            if found is None:
                return None
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """`objects` gives the fields of each object type, `sizes` the limits of each variable."""

    variables: Mapping[str, Type]
    functions: Mapping[str, Function]
    objects: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    type_names: Mapping[str, Type] = field(default_factory=lambda: TYPE_NAMES)
    macros: Mapping[tuple[str, int, bool], Macro] = field(default_factory=lambda: MACROS)

    def named(self, name: str) -> tuple[Type, bool] | None:
        """The type of a global name and whether it is the name of a type."""
        if name in self.variables:
            return self.variables[name], False
        if name in self.type_names:
            return types.type_of(self.type_names[name]), True
        if name in self.objects:
            return types.type_of(Type("struct", name)), True
        return None
