"""The rules of ResourceSlices and their devices (pkg/apis/resource/validation)."""

import re
from typing import Any

from headrace.api.objects import Fields
from headrace.api.quantity import Quantity, parse
from headrace.objects.validation import names
from headrace.objects.validation.affinity import validate_node_selector
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.resource import (
    driver_name,
    each,
    label,
    pool_name,
    qualified_name,
    validate_binding_conditions,
    validate_taint,
)

DEVICES, DEVICES_WITH_MORE = 128, 64
ATTRIBUTES_AND_CAPACITIES = 32
ATTRIBUTE_VALUES = 48
VALUE_BYTES = 64
TAINTS = 16
COUNTER_SETS = 8
COUNTERS = 32
CONSUMPTIONS = 2
VALID_VALUES = 10
LISTS = ("bools", "ints", "strings", "versions")
SCALARS = ("bool", "int", "string", "version")
KINDS_OF_VALUES = (
    "int",
    "bool",
    "string",
    "version",
    "ints",
    "bools",
    "strings",
    "versions",
)  # as Kubernetes tells them

_NUMBER = r"(0|[1-9]\d*)"
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def validate_slice_spec(spec: Fields, old: Fields | None, errors: FieldErrors) -> None:
    pool = spec.get("pool") or {}
    driver_name(spec.get("driver", ""), "spec.driver", errors)
    pool_name(pool.get("name", ""), "spec.pool.name", errors)
    if pool.get("resourceSliceCount", 0) <= 0:
        errors.invalid("spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0), "must be greater than zero")
    if pool.get("generation", 0) < 0:
        errors.invalid("spec.pool.generation", pool["generation"], "must be greater than or equal to zero")
    if old is not None:
        _immutable(spec, old, errors)
    _node_choice(spec, errors)
    if "sharedCounters" in spec and "devices" in spec:
        errors.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    devices = spec.get("devices") or []
    before = {device.get("name", ""): device for device in (old or {}).get("devices") or ()}
    each(
        devices,
        DEVICES_WITH_MORE if any(map(_has_more, devices)) else DEVICES,
        "spec.devices",
        errors,
        lambda item, at: _device(item, before, at, bool(spec.get("perDeviceNodeSelection")), errors),
        "name",
    )
    each(
        spec.get("sharedCounters"),
        COUNTER_SETS,
        "spec.sharedCounters",
        errors,
        lambda item, at: _counters(item, "name", at, errors),
        "name",
    )


def _immutable(spec: Fields, old: Fields, errors: FieldErrors) -> None:
    now, was = spec.get("pool") or {}, old.get("pool") or {}
    for path, value, before in (
        ("spec.pool.name", now.get("name"), was.get("name")),
        ("spec.driver", spec.get("driver"), old.get("driver")),
        ("spec.nodeName", spec.get("nodeName"), old.get("nodeName")),
    ):
        if value != before:
            errors.invalid(path, value, names.FIELD_IMMUTABLE)


def _has_more(device: dict[str, Any]) -> bool:
    """Devices with taints, counters or lists take more room: a slice holds fewer of them."""
    lists = any(part in attribute for attribute in (device.get("attributes") or {}).values() for part in LISTS)
    return lists or bool(device.get("taints")) or bool(device.get("consumesCounters"))


def _node_choice(spec: Fields, errors: FieldErrors) -> None:
    chosen = []
    if "nodeName" in spec:
        if spec["nodeName"]:
            chosen.append("`nodeName`")
            _node_name(spec["nodeName"], "spec.nodeName", errors)
        else:
            errors.invalid("spec.nodeName", "", "must be either unset or set to a non-empty string")
    if "nodeSelector" in spec:
        chosen.append("`nodeSelector`")
        validate_node_selector(spec["nodeSelector"], "spec.nodeSelector", errors)
        terms = spec["nodeSelector"].get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            errors.invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")
    for part in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(part):
            chosen.append(f"`{part}`")
        elif part in spec:
            errors.invalid(f"spec.{part}", False, "must be either unset or set to true")
    words = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not chosen:
        errors.required("spec", words)
    elif len(chosen) > 1:
        errors.invalid("spec", f"{{{', '.join(chosen)}}}", f"{words}, but multiple fields are set")


def _node_name(name: str, path: str, errors: FieldErrors) -> None:
    for message in names.dns_subdomain(name):
        errors.invalid(path, name, message)


def _device(device: dict[str, Any], before: dict[str, Any], path: str, per_device: bool, errors: FieldErrors) -> None:
    """One device. Capacity and taints that it had already are not looked at again."""
    old = before.get(device.get("name", ""), {})
    label(device.get("name", ""), f"{path}.name", errors)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > ATTRIBUTES_AND_CAPACITIES:
        errors.invalid(
            path,
            len(attributes) + len(capacity),
            f"the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES}",
        )
    values = sum(max(1, sum(len(each.get(part) or ()) for part in LISTS)) for each in attributes.values())
    if values > ATTRIBUTE_VALUES:
        errors.invalid(path, values, f"the total number of attribute values must not exceed {ATTRIBUTE_VALUES}")
    for name, attribute in attributes.items():
        qualified_name(name, f"{path}.attributes", errors)
        _attribute(attribute, f"{path}.attributes[{name}]", errors)
    for name, amount in capacity.items() if capacity != old.get("capacity") else ():
        qualified_name(name, f"{path}.capacity", errors)
        _capacity(amount, bool(device.get("allowMultipleAllocations")), f"{path}.capacity[{name}]", errors)
    each(device.get("taints"), TAINTS, f"{path}.taints", errors, lambda item, at: validate_taint(item, at, errors))
    each(
        device.get("consumesCounters"),
        CONSUMPTIONS,
        f"{path}.consumesCounters",
        errors,
        lambda item, at: _counters(item, "counterSet", at, errors),
        "counterSet",
    )
    _device_nodes(device, path, per_device, errors)
    validate_binding_conditions(device, path, errors)


def _device_nodes(device: dict[str, Any], path: str, per_device: bool, errors: FieldErrors) -> None:
    given = [part for part in ("nodeName", "nodeSelector", "allNodes") if part in device]
    if not per_device:
        if given:
            errors.invalid(
                path,
                None,
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
                "in the ResourceSlice spec",
            )
        return
    if "nodeName" in device:
        _node_name(device["nodeName"], f"{path}.nodeName", errors)
    if "nodeSelector" in device:
        validate_node_selector(device["nodeSelector"], f"{path}.nodeSelector", errors)
    if device.get("allNodes") is False:
        errors.invalid(f"{path}.allNodes", False, "must be either unset or set to true")
    words = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    chosen = [f"`{part}`" for part in given if device[part]]
    if not chosen:
        errors.required(path, words)
    elif len(chosen) > 1:
        errors.invalid(path, f"{{{', '.join(chosen)}}}", words)


def _attribute(attribute: dict[str, Any], path: str, errors: FieldErrors) -> None:
    given = [part for part in (*SCALARS, *LISTS) if part in attribute]
    for part in ("string", "version"):
        if part in attribute:
            _value(attribute[part], part, f"{path}.{part}", errors)
        for at, item in enumerate(attribute.get(f"{part}s") or ()):
            _value(item, part, f"{path}.{part}s[{at}]", errors)
    if len(given) != 1:
        fields = ", ".join(f"`{part}`" for part in KINDS_OF_VALUES)
        chosen = f"{{{', '.join(given)}}}" if given else ""
        errors.invalid(path, chosen, f"must specify {'exactly one' if given else 'one'} of: {fields}")


def _value(text: str, kind: str, path: str, errors: FieldErrors) -> None:
    if kind == "version" and not _SEMVER.fullmatch(text):
        errors.invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    if len(text.encode()) > VALUE_BYTES:
        errors.too_long(path, VALUE_BYTES)


def _counters(item: dict[str, Any], name: str, path: str, errors: FieldErrors) -> None:
    if not item.get(name):
        errors.required(f"{path}.{name}")
    else:
        label(item[name], f"{path}.{name}", errors)
    counters = item.get("counters") or {}
    if not counters:
        errors.required(f"{path}.counters")
    elif len(counters) > COUNTERS:
        errors.too_many(f"{path}.counters", len(counters), COUNTERS)
    else:
        for counter in counters:
            label(counter, f"{path}.counters", errors)


def _capacity(capacity: dict[str, Any], several: bool, path: str, errors: FieldErrors) -> None:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    here = f"{path}.requestPolicy"
    if not several:
        errors.forbidden(here, "allowMultipleAllocations must be true")
        return
    listed, ranged = policy.get("validValues") or [], policy.get("validRange")
    if listed and ranged is not None:
        errors.forbidden(
            here,
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time',
        )
        return
    for part, given in (("validValues", listed), ("validRange", ranged)):
        if given and "default" not in policy:
            errors.required(f"{here}.default", f"required when {part} is defined")
            return
    total = parse(capacity.get("value", "0"))
    if listed:
        _valid_values(parse(policy["default"]), total, listed, f"{here}.validValues", errors)
    elif ranged is not None and "default" not in policy:
        errors.required(f"{here}.default", "required when validRange is defined")
    elif ranged is not None:
        _valid_range(parse(policy["default"]), total, ranged, f"{here}.validRange", errors)


def _valid_values(default: Quantity, total: Quantity, texts: list[str], path: str, errors: FieldErrors) -> None:
    values = [parse(text) for text in texts]
    for at in range(1, len(values)):
        if values[at - 1].nano > values[at].nano:
            errors.invalid(f"{path}[{at}]", texts[at], "values must be sorted in ascending order")
    if len(values) > VALID_VALUES:
        errors.too_many(path, len(values), VALID_VALUES)
    else:
        for at, value in enumerate(values):
            if value.nano > total.nano:
                errors.invalid(f"{path}[{at}]", str(value), f"option is larger than capacity value: {total}")
            if any(value.nano == other.nano for other in values[:at]):
                errors.duplicate(f"{path}[{at}]", str(value.value()))
    if default.nano not in {value.nano for value in values}:
        errors.invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _valid_range(default: Quantity, total: Quantity, ranged: dict[str, str], path: str, errors: FieldErrors) -> None:
    if "min" not in ranged:
        errors.required(f"{path}.min", "required when validRange is defined")
        return
    least = parse(ranged["min"])
    most = parse(ranged["max"]) if "max" in ranged else None
    if least.nano > total.nano:
        errors.invalid(f"{path}.min", str(least), f"min is larger than capacity value: {total}")
    if default.nano < least.nano:
        errors.invalid(f"{path}.default", str(default), f"default is less than min: {least}")
    if most is not None:
        if least.nano > most.nano:
            errors.invalid(f"{path}.max", str(least), f"min is larger than max: {most}")
        if most.nano > total.nano:
            errors.invalid(f"{path}.max", str(most), f"max is larger than capacity value: {total}")
        if default.nano > most.nano:
            errors.invalid(f"{path}.default", str(default), f"default is more than max: {most}")
    if "step" in ranged:
        _step(parse(ranged["step"]), default, least, most, total, f"{path}.step", errors)


def _step(
    step: Quantity,
    default: Quantity,
    least: Quantity,
    most: Quantity | None,
    total: Quantity,
    path: str,
    errors: FieldErrors,
) -> None:
    if step.nano <= 0:
        errors.invalid(path, str(step), "must be greater than zero")
        return
    if least.nano + step.nano > total.nano:
        added = Quantity(least.nano + step.nano, least.format)
        errors.invalid(path, str(step), f"one step {added} is larger than capacity value: {total}")
    # Whole numbers, as Kubernetes reads them: rounded up.
    unit = step.value()
    for value in (default, most):
        if value is not None and (value.value() - least.value()) % unit:
            errors.invalid(path, str(value), f"value is not a multiple of a given step ({step}) from ({least})")
