"""Unification: whether a type may be passed for another, and what that says about type parameters.

Source: cel-go's checker. A substitution is only ever extended on a copy, so a failed attempt leaves no trace.
"""

from headrace.cel.types import DYN, Type, is_dyn, is_dyn_or_error, is_nullable

Substitution = dict[Type, Type]
_EXACT = frozenset({"bool", "bytes", "double", "int", "string", "uint", "any", "duration", "timestamp", "struct"})


def assignable(known: Substitution, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> Substitution | None:
    """The substitution under which all given types fit the wanted ones, or None."""
    attempt = dict(known)
    return attempt if _all_fit(attempt, given, wanted) else None


def substitute(known: Substitution, kind: Type, to_dyn: bool = False) -> Type:
    """The type with its parameters replaced by what is known of them; by dyn where nothing is and `to_dyn`."""
    found = known.get(kind)
    if found is not None:
        return substitute(known, found, to_dyn)
    if kind.kind == "parameter":
        return DYN if to_dyn else kind
    if not kind.parameters:
        return kind
    return Type(kind.kind, kind.name, tuple(substitute(known, each, to_dyn) for each in kind.parameters))


def most_general(one: Type, other: Type) -> Type:
    """The less specific of two types that unify."""
    return one if _less_specific(one, other) else other


def _all_fit(known: Substitution, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> bool:
    return len(given) == len(wanted) and all(_fits(known, *pair) for pair in zip(given, wanted, strict=True))


def _fits(known: Substitution, given: Type, wanted: Type) -> bool:
    if wanted.kind == "parameter":
        valid, has_substitution = _substitutes(known, given, wanted)
        if valid or has_substitution:
            return valid
    if given.kind == "parameter":
        return _substitutes(known, wanted, given)[0]
    if is_dyn_or_error(given) or is_dyn_or_error(wanted):
        return True
    if given.kind == "null":
        return is_nullable(wanted)
    if wanted.kind == "null":
        return is_nullable(given)
    if given.kind in _EXACT:
        return given == wanted
    if given.kind == "type":
        return wanted.kind == "type"
    return (
        given.kind == wanted.kind and given.name == wanted.name and _all_fit(known, given.parameters, wanted.parameters)
    )


def _substitutes(known: Substitution, kind: Type, variable: Type) -> tuple[bool, bool]:
    """Whether `kind` may stand for the variable, and whether the variable already stood for something."""
    if kind == variable:
        return True, True
    current = known.get(variable)
    if current is not None:
        if kind == current:
            return True, True
        if not _fits(known, kind, current):
            return False, True
        general = most_general(kind, current)
        if _absent(known, variable, general):
            known[variable] = general
        return True, True
    if _absent(known, variable, kind):
        known[variable] = kind
        return True, False
    return False, False


def _absent(known: Substitution, variable: Type, within: Type) -> bool:
    """Whether the variable does not occur in a type (it would stand for itself)."""
    if variable == within:
        return False
    if within.kind == "parameter":
        found = known.get(within)
        return found is None or _absent(known, variable, found)
    return all(_absent(known, variable, each) for each in within.parameters)


def _less_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "parameter":
        return True
    if is_dyn(other) or other.kind == "parameter" or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in ("opaque", "list", "map"):
        return (
            one.name == other.name
            and len(one.parameters) == len(other.parameters)
            and all(map(_less_specific, one.parameters, other.parameters))
        )
    return one == other
