"""One question, one answer: what an expression compiles to and says of some devices (`headrace simulate cel`)."""

from collections.abc import Mapping
from typing import Any

from headrace.cel.device import EnvironmentName, PreparedDevice, compile_selector, prepare_device
from headrace.cel.errors import CompileError


def prepare_devices(devices: Mapping[str, Mapping[str, Any]]) -> dict[str, PreparedDevice]:
    """From a file of devices by name: driver, attributes, capacity, allowMultipleAllocations."""
    return {
        name: prepare_device(
            device["driver"], device.get("attributes"), device.get("capacity"), device.get("allowMultipleAllocations")
        )
        for name, device in devices.items()
    }


def by_name(document: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Devices by name; those of ResourceSlices (one, or a List of them) are called POOL/DEVICE."""
    kind = document.get("kind")
    if not isinstance(kind, str):
        return document
    return {
        f"{each['spec']['pool']['name']}/{device['name']}": {"driver": each["spec"]["driver"], **device}
        for each in (document["items"] if kind.endswith("List") else (document,))
        for device in each["spec"].get("devices") or ()
    }


def refusal(expression: str) -> str:
    """The compiler's words; empty where it takes the expression."""
    try:
        compile_selector(expression)
    except CompileError as refused:
        return str(refused)
    return ""


def answer(
    case: Mapping[str, Any], devices: Mapping[str, Mapping[str, Any]] | Mapping[str, PreparedDevice]
) -> dict[str, Any]:
    """The answer to `{"id", "expr"}`: null fields where the expression is refused when it is to be evaluated.

    A result is true, false or "error"; a device on which nothing ran has no cost.
    """
    prepared = {
        name: device if isinstance(device, PreparedDevice) else prepare_devices({name: device})[name]
        for name, device in devices.items()
    }
    expression = case["expr"]
    found: dict[str, Any] = {
        "id": case.get("id"),
        "compile_new": _compiles(expression, "new"),
        "compile_new_list_attrs": _compiles(expression, "new_list_attributes"),
        "compile_stored": True,
        "output_type": None,
        "max_cost": None,
        "results": None,
        "actual_cost": None,
    }
    try:
        selector = compile_selector(expression)
    except CompileError:
        return {**found, "compile_stored": False}
    results: dict[str, bool | str] = {}
    costs: dict[str, int] = {}
    for name, device in prepared.items():
        result, cost = selector.matches_with_cost(device)
        results[name] = result if isinstance(result, bool) else "error"
        if cost is not None:
            costs[name] = cost
    return {
        **found,
        "output_type": selector.output_type,
        "max_cost": selector.max_cost,
        "results": results,
        "actual_cost": costs,
    }


def _compiles(expression: str, environment: EnvironmentName) -> bool:
    try:
        compile_selector(expression, environment)
    except CompileError:
        return False
    return True
