"""Leases and PriorityClasses: small kinds that the cluster itself lives by."""

from headrace.api.objects import Object
from headrace.objects.strategies.pods import BUILT_IN_PRIORITIES
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors

HIGHEST_PRIORITY = 1_000_000_000


class LeaseStrategy(Strategy):
    may_be_replaced_unseen = False

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        spec = obj.get("spec") or {}
        if spec.get("leaseDurationSeconds", 1) <= 0:
            errors.invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
        if spec.get("leaseTransitions", 0) < 0:
            errors.invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")
        if spec.get("preferredHolder") and not spec.get("strategy"):
            errors.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


class PriorityClassStrategy(Strategy):
    counts_generations = True

    def default(self, obj: Object) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        name, value = obj["metadata"].get("name", ""), obj["value"]
        if name.startswith("system-"):
            if BUILT_IN_PRIORITIES.get(name) != value:
                errors.forbidden(
                    "metadata.name",
                    "priority class names with 'system-' prefix are reserved for system use only. error: "
                    f"{name} is not a known system priority class",
                )
        elif value > HIGHEST_PRIORITY:
            errors.forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}")
        if not obj["preemptionPolicy"]:
            errors.required("preemptionPolicy")
        elif obj["preemptionPolicy"] not in ("PreemptLowerPriority", "Never"):
            errors.not_supported("preemptionPolicy", obj["preemptionPolicy"], ("PreemptLowerPriority", "Never"))

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        if obj["value"] != old.get("value"):
            errors.forbidden("value", "may not be changed in an update.")
        if obj["preemptionPolicy"] != old.get("preemptionPolicy"):
            errors.invalid("preemptionPolicy", obj["preemptionPolicy"], names.FIELD_IMMUTABLE)

    def generation_changed(self, obj: Object, old: Object) -> bool:
        return False
