"""Reaching into values: fields, keys, indices, and asking whether they are there."""

from headrace.cel.errors import EvaluationError
from headrace.cel.libraries.conversions import to_string
from headrace.cel.values import INT_MAX, MISSING, Uint, Value, find, go_name, is_list, is_map, type_name

KEY_TYPES = frozenset({str, int, Uint, bool, float})


def look(target: Value, key: Value) -> Value:
    """What is under the key, MISSING, or an error where the key cannot be asked for."""
    if is_map(target):
        return find(target, key)
    if is_list(target):
        index = list_index(key)
        if isinstance(index, EvaluationError):
            return index
        return target[index] if 0 <= index < len(target) else MISSING
    return MISSING


def lookup(target: Value, key: Value) -> Value:
    """The same, but what is missing is an error."""
    found = look(target, key)
    if found is not MISSING:
        return found
    return EvaluationError(f"{'index out of bounds' if is_list(target) else 'no such key'}: {shown(key)}")


def list_index(key: Value) -> int | EvaluationError:
    kind = type(key)
    if kind is int:
        return int(key)
    if kind is Uint and key.value <= INT_MAX:
        return int(key.value)
    if kind is float and key.is_integer() and -(2.0**63) < key < 2.0**63:
        return int(key)
    if kind is float or kind is Uint:
        return EvaluationError(f"unsupported index value {shown(key)} in list")
    return EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def as_key(value: Value) -> EvaluationError | None:
    """Whether a computed value may be a key or index at all."""
    return None if type(value) in KEY_TYPES else EvaluationError(f"invalid qualifier type: {go_name(value)}")


def shown(key: Value) -> str:
    return str(to_string(key))
