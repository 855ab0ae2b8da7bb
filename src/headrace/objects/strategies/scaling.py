"""HorizontalPodAutoscalers and PodDisruptionBudgets (pkg/apis/autoscaling, pkg/apis/policy)."""

import copy
from typing import Any

from headrace.api.objects import Object
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.label_selectors import validate_label_selector
from headrace.objects.validation.numbers import int_or_percent, not_negative

SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
SCALE_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
DEFAULT_METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


class AutoscalerStrategy(Strategy):
    has_status = True
    counts_generations = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [copy.deepcopy(DEFAULT_METRIC)]
        behavior = spec.get("behavior")
        if behavior is not None:
            for part, rules in (("scaleUp", SCALE_UP), ("scaleDown", SCALE_DOWN)):
                behavior[part] = {**copy.deepcopy(rules), **(behavior.get(part) or {})}

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"desiredReplicas": 0}

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        spec = obj["spec"]
        least, most = spec["minReplicas"], spec.get("maxReplicas", 0)
        zero_allowed = any(each.get("type") in ("External", "Object") for each in spec["metrics"])
        if least < (0 if zero_allowed else 1):
            errors.invalid("spec.minReplicas", least, f"must be greater than or equal to {0 if zero_allowed else 1}")
        if most == 0:
            errors.required("spec.maxReplicas", "must be set and greater than 0")
        elif most < 0:
            errors.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
        if most < least:
            errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
        target = spec.get("scaleTargetRef") or {}
        for part in ("kind", "name"):
            if not target.get(part):
                errors.required(f"spec.scaleTargetRef.{part}")
            else:
                for message in names.path_segment(target[part]):
                    errors.invalid(f"spec.scaleTargetRef.{part}", target[part], message)
        for at, metric in enumerate(spec["metrics"]):
            _metric(metric, f"spec.metrics[{at}]", errors)

    def validate_status(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        not_negative(obj.get("status") or {}, ("currentReplicas", "desiredReplicas"), "status", errors)


def _metric(metric: dict[str, Any], path: str, errors: FieldErrors) -> None:
    kind = metric.get("type", "")
    if not kind:
        errors.required(f"{path}.type", "must specify a metric source type")
    elif kind not in _SOURCES:
        errors.not_supported(f"{path}.type", kind, sorted(_SOURCES))
    elif _SOURCES[kind] not in metric:
        errors.required(f"{path}.{_SOURCES[kind]}", "must populate information for the given metric source")
    for other in _SOURCES.values():
        if other in metric and other != _SOURCES.get(kind):
            errors.forbidden(f"{path}.{other}", "must populate the given metric source only")
    for source in _SOURCES.values():
        if source in metric:
            _target(metric[source].get("target") or {}, f"{path}.{source}.target", errors)


def _target(target: dict[str, Any], path: str, errors: FieldErrors) -> None:
    kinds = ("AverageValue", "Utilization", "Value")
    if not target.get("type"):
        errors.required(f"{path}.type", "must specify a metric target type")
    elif target["type"] not in kinds:
        errors.invalid(f"{path}.type", target["type"], "must be either Utilization, Value, or AverageValue")
    if "averageUtilization" in target and target["averageUtilization"] < 1:
        errors.invalid(f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0")


class BudgetStrategy(Strategy):
    has_status = True
    counts_generations = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        }

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        spec = obj.get("spec") or {}
        if "minAvailable" in spec and "maxUnavailable" in spec:
            errors.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
        for part in ("minAvailable", "maxUnavailable"):
            if part in spec:
                int_or_percent(spec[part], f"spec.{part}", errors, at_most_all=True)
        validate_label_selector(spec.get("selector") or {}, "spec.selector", errors)
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
            errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))
