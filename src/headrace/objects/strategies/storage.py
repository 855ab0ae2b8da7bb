"""PersistentVolumeClaims, stored only: nothing here provisions or protects a volume."""

from headrace.api.objects import Fields, Object
from headrace.api.quantity import parse
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.label_selectors import validate_label_selector


class ClaimStrategy(Strategy):
    """PersistentVolumeClaims, stored only."""

    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        spec = obj["spec"]
        modes = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
        if not spec.get("accessModes"):
            errors.required("spec.accessModes", "at least 1 access mode is required")
        for mode in spec.get("accessModes") or ():
            if mode not in modes:
                errors.not_supported("spec.accessModes", mode, modes)
        if "selector" in spec:
            validate_label_selector(spec["selector"], "spec.selector", errors)
        if spec["volumeMode"] not in ("Block", "Filesystem"):
            errors.not_supported("spec.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))
        if spec.get("storageClassName"):
            for message in names.dns_subdomain(spec["storageClassName"]):
                errors.invalid("spec.storageClassName", spec["storageClassName"], message)
        storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if storage is None:
            errors.required("spec.resources[storage]")
        elif parse(storage).nano <= 0:
            errors.invalid("spec.resources[storage]", storage, "must be greater than zero")

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        if _requested(obj) < _requested(old) and _requested(obj) <= _capacity(old):
            words = "field can not be less than status.capacity"
            errors.forbidden("spec.resources.requests.storage", words)
        if obj["spec"]["volumeMode"] != old["spec"].get("volumeMode"):
            errors.invalid("volumeMode", obj["spec"]["volumeMode"], names.FIELD_IMMUTABLE)
        if _fixed(obj, old) != _fixed(old, old):
            errors.forbidden(
                "spec",
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
                "claims",
            )


def _requested(claim: Object) -> int:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return parse(requests.get("storage", "0")).nano


def _capacity(claim: Object) -> int:
    return parse(((claim.get("status") or {}).get("capacity") or {}).get("storage", "0")).nano


def _fixed(claim: Object, old: Object) -> Fields:
    """What nobody may change in the spec: a bound claim may grow, and get another class of attributes."""
    spec: Fields = claim["spec"]
    if (old.get("status") or {}).get("phase") != "Bound":
        return spec
    resources = spec.get("resources") or {}
    requests = {name: amount for name, amount in (resources.get("requests") or {}).items() if name != "storage"}
    left = {name: value for name, value in spec.items() if name != "volumeAttributesClassName"}
    return {**left, "resources": {**resources, "requests": requests}}
