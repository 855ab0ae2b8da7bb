"""The rules of a claim's status: its users, its devices, what drivers tell of them (pkg/apis/resource/validation)."""

import ipaddress
import re
from typing import Any

from headrace.api.objects import Fields
from headrace.objects.validation import names
from headrace.objects.validation.affinity import validate_node_selector
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.resource import (
    CONFIGS,
    claim_config,
    driver_name,
    each,
    label,
    label_key,
    pool_name,
    raw_object,
    request_names,
    request_reference,
    validate_binding_conditions,
    validate_toleration,
)

RESULTS = 32
ALLOCATED_CONFIGS = 2 * CONFIGS
CONSUMERS = 256
DATA_BYTES = 10 * 1024
CONDITIONS = 8
CONDITION_STATUSES = ("False", "True", "Unknown")
REASON_BYTES, MESSAGE_BYTES = 1024, 32 * 1024
INTERFACE_BYTES, HARDWARE_BYTES, ADDRESSES = 256, 128, 16

_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_BAD_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_BAD_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"


def validate_claim_status(claim: Fields, old: Fields, errors: FieldErrors) -> None:
    status, was = claim.get("status") or {}, old.get("status") or {}
    allocation, consumers = status.get("allocation"), status.get("reservedFor") or []
    each(consumers, CONSUMERS, "status.reservedFor", errors, lambda item, at: _consumer(item, at, errors), "uid")
    devices = (allocation or {}).get("devices") or {}
    allocated = {_device_id(result) for result in devices.get("results") or ()}
    told: set[tuple[str, ...]] = set()
    for at, device in enumerate(status.get("devices") or ()):
        path, identity = f"status.devices[{at}]", _device_id(device)
        if identity not in allocated:
            errors.invalid(path, "/".join(filter(None, identity)), "must be an allocated device in the claim")
        if identity in told:
            errors.duplicate(path, "/".join(filter(None, identity)))
        told.add(identity)
        _device_status(device, path, errors)
    if consumers and allocation is None:
        errors.forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif consumers and "deletionTimestamp" in claim["metadata"]:
        before = was.get("reservedFor") or []
        if any(consumer not in before for consumer in consumers):
            errors.forbidden(
                "status.reservedFor",
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
            )
    if allocation is not None and was.get("allocation") is not None:
        if allocation != was["allocation"]:
            errors.invalid("status.allocation", allocation, names.FIELD_IMMUTABLE)
    elif allocation is not None:
        known = request_names((claim.get("spec") or {}).get("devices") or {})
        _allocation(allocation, "status.allocation", known, errors)


def _consumer(consumer: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for part in ("resource", "name", "uid"):
        if not consumer.get(part):
            errors.required(f"{path}.{part}")


def _device_id(device: Fields) -> tuple[str, ...]:
    return tuple(device.get(part, "") for part in ("driver", "pool", "device", "shareID"))


def _device_status(device: dict[str, Any], path: str, errors: FieldErrors) -> None:
    driver_name(device.get("driver", ""), f"{path}.driver", errors)
    pool_name(device.get("pool", ""), f"{path}.pool", errors)
    label(device.get("device", ""), f"{path}.device", errors)
    conditions = device.get("conditions") or []
    if len(conditions) > CONDITIONS:
        errors.too_many(f"{path}.conditions", len(conditions), CONDITIONS)
    types: set[str] = set()
    for at, condition in enumerate(conditions):
        type_ = condition.get("type", "")
        if type_ in types:
            errors.duplicate(f"{path}.conditions[{at}]", type_)
        types.add(type_)
        _condition(condition, f"{path}.conditions[{at}]", errors)
    if device.get("data"):
        raw_object(device["data"], f"{path}.data", DATA_BYTES, errors)
    _network(device.get("networkData") or {}, f"{path}.networkData", errors)


def _condition(condition: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if not condition.get("type"):
        errors.required(f"{path}.type", "is required")
    else:
        label_key(condition["type"], f"{path}.type", errors)
    if not condition.get("status"):
        errors.required(f"{path}.status")
    elif condition["status"] not in CONDITION_STATUSES:
        errors.not_supported(f"{path}.status", condition["status"], CONDITION_STATUSES)
    if condition.get("observedGeneration", 0) < 0:
        errors.invalid(
            f"{path}.observedGeneration", condition["observedGeneration"], "must be greater than or equal to zero"
        )
    if not condition.get("lastTransitionTime"):
        errors.required(f"{path}.lastTransitionTime")
    reason = condition.get("reason", "")
    if not reason:
        errors.required(f"{path}.reason")
    elif not re.fullmatch(_REASON, reason):
        errors.invalid(f"{path}.reason", reason, _BAD_REASON)
    if len(reason.encode()) > REASON_BYTES:
        errors.too_long(f"{path}.reason", REASON_BYTES)
    if len(condition.get("message", "").encode()) > MESSAGE_BYTES:
        errors.too_long(f"{path}.message", MESSAGE_BYTES)


def _network(data: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for part, limit in (("interfaceName", INTERFACE_BYTES), ("hardwareAddress", HARDWARE_BYTES)):
        if len(data.get(part, "").encode()) > limit:
            errors.too_long(f"{path}.{part}", limit)
    each(data.get("ips"), ADDRESSES, f"{path}.ips", errors, lambda text, at: _address(text, at, errors), ".")


def _address(text: str, path: str, errors: FieldErrors) -> None:
    """An interface's address with the length of its network, in the one way in which it is written."""
    try:
        if not re.fullmatch(r"[0-9A-Fa-f:.]+/[0-9]+", text):
            raise ValueError
        interface = ipaddress.ip_interface(text)
    except ValueError:
        errors.invalid(path, text, _BAD_ADDRESS)
        return
    length, mapped = interface.network.prefixlen, getattr(interface.ip, "ipv4_mapped", None)
    if mapped is not None and length > 32:
        length -= 96
    canonical = f"{mapped or interface.ip}/{length}"
    if text != canonical:
        errors.invalid(path, text, f'must be in canonical form ("{canonical}")')


def _allocation(allocation: dict[str, Any], path: str, known: dict[str, set[str]], errors: FieldErrors) -> None:
    devices = allocation.get("devices") or {}
    each(
        devices.get("results"),
        RESULTS,
        f"{path}.devices.results",
        errors,
        lambda item, at: _result(item, at, known, errors),
    )
    each(
        devices.get("config"),
        ALLOCATED_CONFIGS,
        f"{path}.devices.config",
        errors,
        lambda item, at: _allocated_config(item, at, known, errors),
    )
    if "nodeSelector" in allocation:
        validate_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector", errors)


def _result(result: dict[str, Any], path: str, known: dict[str, set[str]], errors: FieldErrors) -> None:
    request_reference(result.get("request", ""), f"{path}.request", known, errors)
    driver_name(result.get("driver", ""), f"{path}.driver", errors)
    pool_name(result.get("pool", ""), f"{path}.pool", errors)
    label(result.get("device", ""), f"{path}.device", errors)
    validate_binding_conditions(result, path, errors)
    for at, toleration in enumerate(result.get("tolerations") or ()):
        validate_toleration(toleration, f"{path}.tolerations[{at}]", errors)


def _allocated_config(config: dict[str, Any], path: str, known: dict[str, set[str]], errors: FieldErrors) -> None:
    source = config.get("source", "")
    if not source:
        errors.required(f"{path}.source")
    elif source not in ("FromClaim", "FromClass"):
        errors.not_supported(f"{path}.source", source, ("FromClaim", "FromClass"))
    claim_config(config, path, known, errors)
