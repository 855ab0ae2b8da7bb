"""v1 and events.k8s.io/v1 Events are the same objects with some fields renamed (pkg/apis/core/v1, events/v1)."""

from headrace.api.objects import Object

_TO_EVENTS_V1 = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_UNSAID = ("reportingComponent", "reportingInstance")
_TO_CORE_V1 = {new: old for old, new in _TO_EVENTS_V1.items()}


def to_events_v1(event: Object) -> Object:
    said = {name: value for name, value in event.items() if name not in _UNSAID or value}
    return _renamed(said, _TO_EVENTS_V1, "events.k8s.io/v1")


def to_core_v1(event: Object) -> Object:
    return _renamed(event, _TO_CORE_V1, "v1")


def _renamed(event: Object, names: dict[str, str], api_version: str) -> Object:
    return {names.get(name, name): value for name, value in event.items()} | {"apiVersion": api_version}
