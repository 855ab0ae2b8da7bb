"""Derived attributes: an expression over a device whose value counts as an attribute of it (alpha in Kubernetes 1.37).

The result must be a string, integer, boolean or semver, or a list of one of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.cel import counting, types
from headrace.cel.checker import check
from headrace.cel.device import COST_LIMIT, PreparedDevice, environment_of
from headrace.cel.errors import CompileError, EvaluationError, compilation_failed
from headrace.cel.parser import parse
from headrace.cel.plan import Plan, plan
from headrace.cel.types import Type
from headrace.cel.validators import validate
from headrace.cel.values import Optional, Semver, TypeValue, Value, is_list, native_name

_SCALARS = (types.BOOL, types.INT, types.STRING, types.ANY, types.DYN, types.SEMVER)
_FIELDS = {bool: "bool", int: "int", str: "string", Semver: "version"}


@dataclass(frozen=True, slots=True, eq=False)
class DerivedAttribute:
    """`evaluate` gives a DeviceAttribute of resource.k8s.io/v1 as JSON."""

    expression: str
    _plan: Plan

    def evaluate(self, device: PreparedDevice) -> Mapping[str, Any]:
        """Raises EvaluationError."""
        if device.error is not None:
            raise EvaluationError(device.error)
        result, _ = counting.evaluate(self._plan, [device.with_own_quantities()], COST_LIMIT)
        if isinstance(result, EvaluationError):
            raise result
        return _attribute(result)


def compile_derived_attribute(expression: str) -> DerivedAttribute:
    """Compile for evaluation, like a stored selector; raises CompileError."""
    names = environment_of("stored")
    try:
        checked = check(expression, parse(expression, names.macros), names)
        issues = validate(checked)
        if issues:
            raise compilation_failed(expression, issues)
        output = checked.type(checked.root)
        if not _is_allowed(output):
            raise CompileError(
                "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, "
                f"not {output}"
            )
        return DerivedAttribute(expression, plan(checked, names))
    except RecursionError:
        raise CompileError("compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded") from None


def _is_allowed(output: Type) -> bool:
    if output in _SCALARS:
        return True
    return output.kind == "list" and output.parameters[0] in _SCALARS


def _attribute(value: Value) -> Mapping[str, Any]:
    value = _native(value)
    if is_list(value):
        return _list_attribute([_native(each) for each in value])
    field = _FIELDS.get(type(value))
    if field is None:
        raise EvaluationError(f"unsupported CEL return type: {native_name(value)}")
    return {field: _plain(value)}


def _list_attribute(values: list[Value]) -> Mapping[str, Any]:
    if not values:
        return {"strings": []}
    kind = type(values[0])
    field = _FIELDS.get(kind)
    if field is None:
        raise EvaluationError(f"unsupported list element type: {native_name(values[0])}")
    for index, value in enumerate(values):
        if type(value) is not kind:
            wanted = "semver" if kind is Semver else field
            raise EvaluationError(f"expected list element at index {index} to be {wanted}, got {native_name(value)}")
    return {f"{field}s": [_plain(value) for value in values]}


def _native(value: Value) -> Value:
    """What the reference reads: the content of an optional, the name of a type."""
    while type(value) is Optional:
        value = value.value
    return value.name if type(value) is TypeValue else value


def _plain(value: Value) -> Any:
    return _written(value) if isinstance(value, Semver) else value


def _written(version: Semver) -> str:
    text = ".".join(map(str, version.core))
    if version.pre:
        text += "-" + ".".join(str(part) for _, part in version.pre)
    if version.build:
        text += "+" + ".".join(version.build)
    return text
