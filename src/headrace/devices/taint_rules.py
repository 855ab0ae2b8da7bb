"""DeviceTaintRules as part of the slices: allocation sees a rule's taint as if the driver had published it (pure)."""

from collections.abc import Iterable

from headrace.api.objects import Fields, Object


def selects(rule: Fields, resource_slice: Fields, device: str | None = None) -> bool:
    """Whether the rule is for the slice's pool, and for this device of it. A rule without selector is for nothing."""
    spec: Fields = rule.get("spec") or {}
    selector = spec.get("deviceSelector")
    if selector is None:
        return False
    found: Fields = resource_slice.get("spec") or {}
    wanted = {
        "driver": found.get("driver"),
        "pool": (found.get("pool") or {}).get("name"),
        "device": device if device is not None else selector.get("device"),
    }
    return all(part not in selector or selector[part] == value for part, value in wanted.items())


def tainted(resource_slice: Object, rules: Iterable[Fields]) -> Object:
    """The slice with the rules' taints after the driver's own."""
    here = [rule for rule in rules if selects(rule, resource_slice)]
    if not here:
        return resource_slice
    spec: Fields = resource_slice.get("spec") or {}
    devices = []
    for device in spec.get("devices") or ():
        taints = [rule["spec"]["taint"] for rule in here if selects(rule, resource_slice, str(device.get("name")))]
        devices.append({**device, "taints": [*(device.get("taints") or ()), *taints]} if taints else device)
    return {**resource_slice, "spec": {**spec, "devices": devices}}
