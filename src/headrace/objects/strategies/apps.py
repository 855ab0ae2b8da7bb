"""Deployments and ReplicaSets (pkg/apis/apps)."""

from typing import Any

from headrace.api.objects import Object
from headrace.api.selectors import EVERYTHING, from_label_selector
from headrace.objects.defaults.pods import default_spec
from headrace.objects.strategy import Strategy, keep
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.label_selectors import validate_label_selector
from headrace.objects.validation.metadata import validate_annotations, validate_labels
from headrace.objects.validation.names import FIELD_IMMUTABLE
from headrace.objects.validation.numbers import amount, int_or_percent, not_negative
from headrace.objects.validation.pods import validate_spec

MORE_THAN_ALL = "cannot be greater than status.replicas"


class ReplicaSetStrategy(Strategy):
    has_status = True
    counts_generations = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        template = spec.setdefault("template", {})
        template.setdefault("metadata", {})
        default_spec(template.setdefault("spec", {}))

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        spec = obj["spec"]
        not_negative(spec, ("replicas", "minReadySeconds"), "spec", errors)
        if _selector(spec, errors):
            _template(spec, errors)

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        if obj["spec"].get("selector") != old["spec"].get("selector"):
            errors.invalid("spec.selector", obj["spec"].get("selector"), FIELD_IMMUTABLE)

    def validate_status(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
        _counts(obj.get("status") or {}, counts, errors)

    def selectable_fields(self) -> tuple[str, ...]:
        return ("status.replicas",)


class DeploymentStrategy(ReplicaSetStrategy):
    def default(self, obj: Object) -> None:
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        strategy = spec.setdefault("strategy", {})
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def prepare_status(self, obj: Object, old: Object) -> None:
        super().prepare_status(obj, old)
        keep(obj["metadata"], old["metadata"], "labels")

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        super().validate(obj, errors)
        spec = obj["spec"]
        _rollout(spec["strategy"], "spec.strategy", errors)
        not_negative(spec, ("revisionHistoryLimit", "progressDeadlineSeconds"), "spec", errors)
        if spec["progressDeadlineSeconds"] <= spec.get("minReadySeconds", 0):
            errors.invalid(
                "spec.progressDeadlineSeconds", spec["progressDeadlineSeconds"], "must be greater than minReadySeconds"
            )

    def validate_status(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        _counts(obj.get("status") or {}, counts, errors)

    def generation_changed(self, obj: Object, old: Object) -> bool:
        """Annotations count too: they are copied to ReplicaSets."""
        before, after = (each["metadata"].get("annotations") for each in (old, obj))
        return obj.get("spec") != old.get("spec") or before != after

    def selectable_fields(self) -> tuple[str, ...]:
        return ()


def _selector(spec: dict[str, Any], errors: FieldErrors) -> bool:
    """Whether the selector is one at all: without it nothing can be said of the template."""
    selector = spec.get("selector")
    if selector is None:
        errors.required("spec.selector")
        return True
    before = errors.count
    validate_label_selector(selector, "spec.selector", errors)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif errors.count > before:
        errors.invalid("spec.selector", selector, "invalid label selector")
        return False
    return True


def _template(spec: dict[str, Any], errors: FieldErrors) -> None:
    template, path = spec["template"], "spec.template"
    selector = from_label_selector(spec.get("selector"))
    labels = template["metadata"].get("labels") or {}
    if selector != EVERYTHING and not selector.matches(labels):
        errors.invalid(f"{path}.metadata.labels", labels or None, "`selector` does not match template `labels`")
    validate_labels(labels, f"{path}.labels", errors)
    validate_annotations(template["metadata"].get("annotations") or {}, f"{path}.annotations", errors)
    validate_spec(template["spec"], f"{path}.spec", errors)
    if template["spec"]["restartPolicy"] != "Always":
        errors.not_supported(f"{path}.spec.restartPolicy", template["spec"]["restartPolicy"], ("Always",))
    if "activeDeadlineSeconds" in template["spec"]:
        errors.forbidden(f"{path}.spec.activeDeadlineSeconds", "activeDeadlineSeconds in ReplicaSet is not Supported")


def _rollout(strategy: dict[str, Any], path: str, errors: FieldErrors) -> None:
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "Recreate":
        if rolling is not None:
            errors.forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif strategy["type"] != "RollingUpdate":
        errors.not_supported(path, strategy, ("Recreate", "RollingUpdate"))
    elif rolling is not None:
        int_or_percent(rolling["maxUnavailable"], f"{path}.rollingUpdate.maxUnavailable", errors, at_most_all=True)
        int_or_percent(rolling["maxSurge"], f"{path}.rollingUpdate.maxSurge", errors)
        if amount(rolling["maxUnavailable"]) == 0 and amount(rolling["maxSurge"]) == 0:
            errors.invalid(
                f"{path}.rollingUpdate.maxUnavailable", rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0"
            )


def _counts(status: dict[str, Any], parts: tuple[str, ...], errors: FieldErrors) -> None:
    not_negative(status, ("observedGeneration", "replicas", *parts), "status", errors)
    for part in parts:
        if status.get(part, 0) > status.get("replicas", 0):
            errors.invalid(f"status.{part}", status[part], MORE_THAN_ALL)
    if status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
        errors.invalid("status.availableReplicas", status["availableReplicas"], "cannot be greater than readyReplicas")
