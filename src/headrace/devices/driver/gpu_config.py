"""`gpu.example.com/v1 GpuConfig`, the opaque parameters of the simulated GPUs: strict, with errors that name the field.

Pure. Of several configurations for one device, the last that has `sharing` counts; every one must be right.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

API_VERSION, KIND = "gpu.example.com/v1", "GpuConfig"
TIME_SLICING, SPACE_PARTITIONING = "TimeSlicing", "SpacePartitioning"
STRATEGIES = (TIME_SLICING, SPACE_PARTITIONING)
INTERVALS = ("Default", "Short", "Medium", "Long")
MOST_PARTITIONS = 7


class InvalidConfig(ValueError):
    """The message names the field, what it says and what would be right."""


class Sharing(msgspec.Struct, frozen=True):
    """`interval` is set for TimeSlicing, `partitions` for SpacePartitioning."""

    strategy: str
    interval: str | None = None
    partitions: int | None = None


def sharing(configs: Sequence[Mapping[str, Any]]) -> Sharing | None:
    """What the last configuration that speaks of sharing says. Every one is checked. Raises InvalidConfig."""
    chosen: Sharing | None = None
    for parameters in configs:
        chosen = _checked(parameters) or chosen
    return chosen


def _checked(parameters: Mapping[str, Any]) -> Sharing | None:
    version, kind = parameters.get("apiVersion"), parameters.get("kind")
    if (version, kind) != (API_VERSION, KIND):
        raise InvalidConfig(f"{version} {kind}: must be {API_VERSION} {KIND}")
    _known("", parameters, ("apiVersion", "kind", "sharing"))
    if "sharing" not in parameters:
        return None
    found = _mapping("sharing", parameters["sharing"])
    _known("sharing.", found, ("strategy", "timeSlicingConfig", "spacePartitioningConfig"))
    strategy = _one_of("sharing.strategy", found.get("strategy"), STRATEGIES)
    other = "spacePartitioningConfig" if strategy == TIME_SLICING else "timeSlicingConfig"
    if other in found:
        raise InvalidConfig(f"sharing.{other}: must be absent when sharing.strategy is {strategy}")
    if strategy == TIME_SLICING:
        time_slicing = _mapping("sharing.timeSlicingConfig", found.get("timeSlicingConfig", {}))
        _known("sharing.timeSlicingConfig.", time_slicing, ("interval",))
        interval = time_slicing.get("interval", INTERVALS[0])
        return Sharing(strategy, interval=_one_of("sharing.timeSlicingConfig.interval", interval, INTERVALS))
    partitioning = _mapping("sharing.spacePartitioningConfig", found.get("spacePartitioningConfig", {}))
    _known("sharing.spacePartitioningConfig.", partitioning, ("partitionCount",))
    count = partitioning.get("partitionCount", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_PARTITIONS:
        where = "sharing.spacePartitioningConfig.partitionCount"
        raise InvalidConfig(f"{where} {count!r}: must be a whole number from 1 to {MOST_PARTITIONS}")
    return Sharing(strategy, partitions=count)


def _known(where: str, found: Mapping[str, Any], fields: Sequence[str]) -> None:
    for name in found:
        if name not in fields:
            raise InvalidConfig(f"{where}{name}: unknown field; known are {', '.join(fields)}")


def _mapping(where: str, found: Any) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise InvalidConfig(f"{where} {found!r}: must be an object")
    return found


def _one_of(where: str, found: Any, allowed: Sequence[str]) -> str:
    if not isinstance(found, str) or found not in allowed:
        raise InvalidConfig(f"{where} {found!r}: must be one of {', '.join(allowed)}")
    return found
