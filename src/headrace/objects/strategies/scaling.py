"""HorizontalPodAutoscalers and PodDisruptionBudgets (pkg/apis/autoscaling, pkg/apis/policy)."""

import copy
from typing import Any

from headrace.api.objects import Object
from headrace.api.quantity import parse
from headrace.objects.strategy import Strategy
from headrace.objects.validation import names
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.label_selectors import validate_label_selector
from headrace.objects.validation.numbers import int_or_percent, not_negative
from headrace.objects.validation.quantities import container_resource

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
_AMOUNT_WORDS = {
    "external": "must set either a target value for metric or a per-pod target",
    "object": "must set either a target value or averageValue",
    "pods": "must specify a positive target averageValue",
}
LONGEST_WINDOW_SECONDS = 3600
LONGEST_PERIOD_SECONDS = 1800
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
        if least < 0:
            errors.invalid("spec.minReplicas", least, "must be greater than or equal to 0")
        if most == 0:
            errors.required("spec.maxReplicas", "must be set and greater than 0")
        elif most < 0:
            errors.invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
        if most < least:
            errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
        target = spec.get("scaleTargetRef") or {}
        _reference(target, "spec.scaleTargetRef", errors)
        version = target.get("apiVersion", "")
        if "/" not in version:
            errors.invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")
        for at, metric in enumerate(spec["metrics"]):
            _metric(metric, f"spec.metrics[{at}]", errors)
        if least == 0 and not any(each.get("type") in ("External", "Object") for each in spec["metrics"]):
            errors.forbidden(
                "spec.metrics",
                "must specify at least one Object or External metric to support scaling to zero replicas",
            )
        for part, rules in (spec.get("behavior") or {}).items():
            _rules(rules, f"spec.behavior.{part}", errors)

    def validate_status(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        not_negative(obj.get("status") or {}, ("currentReplicas", "desiredReplicas"), "status", errors)


def _reference(target: dict[str, Any], path: str, errors: FieldErrors) -> None:
    for part in ("kind", "name"):
        if not target.get(part):
            errors.required(f"{path}.{part}")
        else:
            for message in names.path_segment(target[part]):
                errors.invalid(f"{path}.{part}", target[part], message)
    version = target.get("apiVersion", "")
    if version.count("/") > 1:
        errors.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")


def _metric(metric: dict[str, Any], path: str, errors: FieldErrors) -> None:
    kind = metric.get("type", "")
    if not kind:
        errors.required(f"{path}.type", "must specify a metric source type")
    if kind not in _SOURCES:
        errors.not_supported(f"{path}.type", kind, sorted(_SOURCES))
    present = [source for source in ("object", "external", "pods", "resource", "containerResource") if source in metric]
    for source in present[:1]:
        _source(source, metric[source], f"{path}.{source}", errors)
    wanted = _SOURCES.get(kind, "")
    if wanted and wanted not in metric:
        errors.required(f"{path}.{wanted}", "must populate information for the given metric source")
    for other in present if len(present) > 1 else ():
        if other != wanted:
            errors.forbidden(f"{path}.{other}", "must populate the given metric source only")


def _source(kind: str, source: dict[str, Any], path: str, errors: FieldErrors) -> None:
    if kind in ("resource", "containerResource"):
        if not source.get("name"):
            errors.required(f"{path}.name", "must specify a resource name")
        elif kind == "containerResource":
            container_resource(source["name"], f"{path}.name", errors)
        if kind == "containerResource" and not source.get("container"):
            errors.required(f"{path}.container", "must specify a container")
        elif kind == "containerResource":
            for message in names.dns_label(source["container"]):
                errors.invalid(f"{path}.container", source["container"], message)
    else:
        _metric_name((source.get("metric") or {}).get("name", ""), f"{path}.metric.name", errors)
    if kind == "object":
        _reference(source.get("describedObject") or {}, f"{path}.describedObject", errors)
    target = source.get("target") or {}
    _target(target, f"{path}.target", errors)
    _target_amount(kind, target, f"{path}.target", errors)


def _metric_name(name: str, path: str, errors: FieldErrors) -> None:
    if not name:
        errors.required(path, "must specify a metric name")
    for message in names.path_segment(name):
        errors.invalid(path, name, message)


def _target_amount(kind: str, target: dict[str, Any], path: str, errors: FieldErrors) -> None:
    utilization, average = "averageUtilization" in target, "averageValue" in target
    if kind in ("resource", "containerResource"):
        if not utilization and not average:
            words = "must set either a target raw value or a target utilization"
            errors.required(f"{path}.averageUtilization", words)
        if utilization and average:
            errors.forbidden(f"{path}.averageValue", "may not set both a target raw value and a target utilization")
    elif not average and (kind == "pods" or "value" not in target):
        errors.required(f"{path}.averageValue", _AMOUNT_WORDS[kind])


def _target(target: dict[str, Any], path: str, errors: FieldErrors) -> None:
    kind = target.get("type", "")
    if not kind:
        errors.required(f"{path}.type", "must specify a metric target type")
    if kind not in ("AverageValue", "Utilization", "Value"):
        errors.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for part in ("value", "averageValue"):
        if part in target and parse(target[part]).nano <= 0:
            errors.invalid(f"{path}.{part}", target[part], "must be positive")
    if target.get("averageUtilization", 1) < 1:
        errors.invalid(f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0")


def _rules(rules: dict[str, Any], path: str, errors: FieldErrors) -> None:
    window = rules.get("stabilizationWindowSeconds", 0)
    if window < 0:
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window > LONGEST_WINDOW_SECONDS:
        errors.invalid(
            f"{path}.stabilizationWindowSeconds", window, f"must be less than or equal to {LONGEST_WINDOW_SECONDS}"
        )
    if rules.get("selectPolicy", "Max") not in ("Disabled", "Max", "Min"):
        errors.not_supported(f"{path}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    policies = rules.get("policies") or []
    if not policies:
        errors.required(f"{path}.policies", "must specify at least one Policy")
    for at, policy in enumerate(policies):
        here, period = f"{path}.policies[{at}]", policy.get("periodSeconds", 0)
        if policy.get("type", "") not in ("Percent", "Pods"):
            errors.not_supported(f"{here}.type", policy.get("type", ""), ("Percent", "Pods"))
        if policy.get("value", 0) <= 0:
            errors.invalid(f"{here}.value", policy.get("value", 0), "must be greater than zero")
        if period <= 0:
            errors.invalid(f"{here}.periodSeconds", period, "must be greater than zero")
        if period > LONGEST_PERIOD_SECONDS:
            errors.invalid(f"{here}.periodSeconds", period, f"must be less than or equal to {LONGEST_PERIOD_SECONDS}")


class BudgetStrategy(Strategy):
    has_status = True
    judges_metadata = False
    may_be_replaced_unseen = False
    counts_generations = True

    def name_errors(self, name: str) -> list[str]:
        return names.path_segment(name)

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
