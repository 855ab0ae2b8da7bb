"""Fields of resource.k8s.io/v1 behind gates that Kubernetes 1.37 leaves off: dropped from what is written, as there.

Kept, they would make the allocator refuse what it does not know: a driver that fills them in would lose its devices.
Source: dropDisabledFields in pkg/registry/resource.
"""

from typing import Any

from headrace.objects.validation.resource_slices import LISTS


def drop_from_claim_spec(spec: dict[str, Any]) -> None:
    """DRADerivedAttributes."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        for wanted in (request.get("exactly") or {}, *(request.get("firstAvailable") or ())):
            wanted.pop("derivedAttributes", None)


def drop_from_slice_spec(spec: dict[str, Any]) -> None:
    """DRAOptionalNodeOperations, DRAPartitionableDevicesType, and for each device the other gates."""
    spec.pop("skipNodeOperations", None)
    spec.pop("partitionTypeAttribute", None)
    for device in spec.get("devices") or ():
        device.pop("nodeAllocatableResources", None)  # DRANodeAllocatableResources
        for consumption in device.get("consumesCounters") or ():
            consumption.pop("compatibilityGroups", None)  # DRADeviceCompatibilityGroups
        for attribute in (device.get("attributes") or {}).values():
            for part in LISTS:  # DRAListTypeAttributes
                attribute.pop(part, None)
