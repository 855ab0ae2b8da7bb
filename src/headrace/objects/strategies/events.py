"""Events: lenient as v1 has always been, strict as events.k8s.io/v1 (pkg/apis/core/validation/events.go).

The rules speak of the object as v1 has it, which is how both are at rest.
"""

from headrace.api.objects import Object
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.names import FIELD_IMMUTABLE

SHORT, LONG = 128, 1024
_NEW_ONLY = ("firstTimestamp", "lastTimestamp", "count")
_FROZEN = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingInstance",
)


class EventStrategy(Strategy):
    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self.judges_metadata = strict
        self._controller = "reportingController" if strict else "reportingComponent"

    def name_errors(self, name: str) -> list[str]:
        return names.dns_subdomain(name) if self._strict else names.path_segment(name)

    def default(self, obj: Object) -> None:
        """v1 writes these two even when nothing was said."""
        for part in ("reportingComponent", "reportingInstance"):
            obj.setdefault(part, "")

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        self._always(obj, errors)
        if not self._strict:
            return
        _series(obj, errors)
        if not obj.get("eventTime"):
            errors.required("eventTime")
        if obj.get("type") not in ("Normal", "Warning"):
            errors.invalid("type", "", f"has invalid value: {obj.get('type', '')}")
        for part in _NEW_ONLY:
            if obj.get(part):
                errors.invalid(part, "", "needs to be unset")
        if any((obj.get("source") or {}).values()):
            errors.invalid("source", "", "needs to be unset")

    def validate_change(self, subresource: str, obj: Object, old: Object, errors: FieldErrors) -> None:
        """A change is not judged as a new one is: most of a strict Event may not change at all."""
        self._always(obj, errors)
        if not self._strict:
            return
        if obj.get("series") != old.get("series"):
            _series(obj, errors)
        for part in _FROZEN:
            if obj.get(part) != old.get(part):
                errors.invalid(part, obj.get(part), FIELD_IMMUTABLE)
        if obj.get("reportingComponent") != old.get("reportingComponent"):
            errors.invalid("reportingController", obj.get("reportingComponent"), FIELD_IMMUTABLE)

    def _always(self, obj: Object, errors: FieldErrors) -> None:
        namespace = obj["metadata"].get("namespace", "")
        about = (obj.get("involvedObject") or {}).get("namespace", "")
        timed = bool(obj.get("eventTime"))
        agreed = namespace in ("default", "kube-system" if timed else "") if not about else timed or namespace == about
        if not agreed:
            errors.invalid("involvedObject.namespace", about, "does not match event.namespace")
        if not timed:
            return
        controller = obj.get("reportingComponent", "")
        if not controller:
            errors.required(self._controller)
        for message in names.qualified_name_errors(controller):
            errors.invalid(self._controller, controller, message)
        for part, limit in (("reportingInstance", SHORT), ("action", SHORT), ("reason", SHORT)):
            if not obj.get(part):
                errors.required(part)
            elif len(obj[part].encode()) > limit:
                errors.invalid(part, "", f"can have at most {limit} characters")
        if len(obj.get("message", "").encode()) > LONG:
            errors.invalid("message", "", f"can have at most {LONG} characters")

    def selectable_fields(self) -> tuple[str, ...]:
        of = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        return (
            *(f"involvedObject.{part}" for part in of),
            *(f"regarding.{part}" for part in of),
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        )


def _series(obj: Object, errors: FieldErrors) -> None:
    series = obj.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        errors.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        errors.required("series.lastObservedTime")
