"""The columns of workloads: Deployments, ReplicaSets, autoscalers, disruption budgets."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.api.objects import Object, name_of
from headrace.api.printers import AGE, NAME, Printer, TableColumn, age, label_selector_text, wide

_SHOWN_METRICS = 2
_TEMPLATE = (wide("Containers"), wide("Images"), wide("Selector"))


def _template(spec: Mapping[str, Any]) -> list[Any]:
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    names = ",".join(str(container.get("name")) for container in containers)
    images = ",".join(str(container.get("image", "")) for container in containers)
    return [names, images, label_selector_text(spec.get("selector"))]


def _deployment(obj: Object, now: float) -> list[Any]:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_template(spec),
    ]


def _replica_set(obj: Object, now: float) -> list[Any]:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    return [
        name_of(obj),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *_template(spec),
    ]


def _disruption_budget(obj: Object, now: float) -> list[Any]:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        name_of(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        (obj.get("status") or {}).get("disruptionsAllowed", 0),
        age(obj, now),
    ]


def _autoscaler(obj: Object, now: float) -> list[Any]:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    status: Mapping[str, Any] = obj.get("status") or {}
    target: Mapping[str, Any] = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    return [
        name_of(obj),
        f"{target.get('kind')}/{target.get('name')}",
        metrics_text(spec.get("metrics") or (), status.get("currentMetrics") or ()),
        "<unset>" if least is None else str(least),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


def metrics_text(specs: Sequence[Mapping[str, Any]], statuses: Sequence[Mapping[str, Any] | None]) -> str:
    """`cpu: 45%/80%, 10/100m + 1 more...`: the current value and the target of each metric of an autoscaler."""
    if not specs:
        return "<none>"
    shown = [
        _metric_text(spec, statuses[at] if at < len(statuses) else None)
        for at, spec in enumerate(specs[:_SHOWN_METRICS])
    ]
    more = f" + {len(specs) - _SHOWN_METRICS} more..." if len(specs) > _SHOWN_METRICS else ""
    return ", ".join(shown) + more


def _metric_text(spec: Mapping[str, Any], status: Mapping[str, Any] | None) -> str:
    kind = str(spec.get("type", ""))
    field = kind[:1].lower() + kind[1:]
    source: Mapping[str, Any] = spec.get(field) or {}
    target: Mapping[str, Any] = source.get("target") or {}
    current: Mapping[str, Any] = ((status or {}).get(field) or {}).get("current") or {}
    average = target.get("averageValue")
    match kind:
        case "External" | "Object" if average is not None:
            return f"{current.get('averageValue', '<unknown>')}/{average} (avg)"
        case "External" | "Object":
            return f"{current.get('value', '<unknown>')}/{target.get('value')}"
        case "Pods":
            return f"{current.get('averageValue', '<unknown>')}/{average}"
        case "Resource" | "ContainerResource" if average is not None:
            return f"{source.get('name')}: {current.get('averageValue', '<unknown>')}/{average}"
        case "Resource" | "ContainerResource":
            wanted, found = target.get("averageUtilization"), current.get("averageUtilization")
            now = "<unknown>" if found is None else f"{found}%"
            return f"{source.get('name')}: {now}/" + ("<auto>" if wanted is None else f"{wanted}%")
    return "<unknown type>"


PRINTERS = {
    "deployments.apps": Printer(
        (NAME, TableColumn("Ready"), TableColumn("Up-to-date"), TableColumn("Available"), AGE, *_TEMPLATE),
        _deployment,
    ),
    "replicasets.apps": Printer(
        (
            NAME,
            TableColumn("Desired", "integer"),
            TableColumn("Current", "integer"),
            TableColumn("Ready", "integer"),
            AGE,
            *_TEMPLATE,
        ),
        _replica_set,
    ),
    "horizontalpodautoscalers.autoscaling": Printer(
        (
            NAME,
            TableColumn("Reference"),
            TableColumn("Targets"),
            TableColumn("MinPods"),
            TableColumn("MaxPods"),
            TableColumn("Replicas"),
            AGE,
        ),
        _autoscaler,
    ),
    "poddisruptionbudgets.policy": Printer(
        (
            NAME,
            TableColumn("Min Available"),
            TableColumn("Max Unavailable"),
            TableColumn("Allowed Disruptions", "integer"),
            AGE,
        ),
        _disruption_budget,
    ),
}
