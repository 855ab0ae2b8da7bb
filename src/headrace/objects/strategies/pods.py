"""Pods: what creation, update, status, binding and resize may change, and how they end (pkg/registry/core/pod)."""

from typing import Any

from headrace.api import kinds
from headrace.api.objects import Object
from headrace.ledger.node import Shortfall
from headrace.objects import pod_amounts
from headrace.objects.bodies import decode
from headrace.objects.defaults.pods import add_default_tolerations, default_pod
from headrace.objects.qos import qos_class
from headrace.objects.strategy import Strategy, keep
from headrace.objects.validation import pod_resizes, pod_updates, pods
from headrace.objects.validation.errors import FieldErrors
from headrace.store.protocol import Forbidden
from headrace.store.rows import Key, Rows

ENDED = ("Failed", "Succeeded")
BUILT_IN_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PodStrategy(Strategy):
    has_status = True
    counts_generations = True

    def default(self, obj: Object) -> None:
        default_pod(obj)

    def prepare_create(self, obj: Object) -> None:
        pod_amounts.complete(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                }
            ]

    def admit_new(self, rows: Rows, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("serviceAccountName", "default")
        spec["serviceAccount"] = spec["serviceAccountName"]
        _take_pull_secrets(rows, obj)
        add_default_tolerations(spec)
        _resolve_priority(rows, obj)

    def prepare_update(self, obj: Object, old: Object) -> None:
        super().prepare_update(obj, old)
        if "resources" in old["spec"]:  # a client that does not know the field leaves it out
            obj["spec"].setdefault("resources", old["spec"]["resources"])
        add_default_tolerations(obj["spec"])

    def prepare_subresource(self, subresource: str, obj: Object, old: Object) -> None:
        match subresource:
            case "resize":
                pod_resizes.keep_all_but_resources(obj, old)
                pod_resizes.pin_allocated(obj, old)
            case "binding":
                pass
            case _:
                self.prepare_status(obj, old)

    def prepare_status(self, obj: Object, old: Object) -> None:
        super().prepare_status(obj, old)
        keep(obj["metadata"], old["metadata"], "ownerReferences")
        status = obj.setdefault("status", {})
        status.setdefault("qosClass", (old.get("status") or {}).get("qosClass", qos_class(old["spec"])))
        _keep_addresses_equal(status)

    def validate(self, obj: Object, errors: FieldErrors) -> None:
        pods.validate_pod(obj, errors)

    def validate_update(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        pod_updates.validate_update(obj, old, errors)

    def validate_change(self, subresource: str, obj: Object, old: Object, errors: FieldErrors) -> None:
        if subresource == "resize":
            if why := pod_resizes.refusal(old):
                errors.forbidden("[]", why)  # as Kubernetes names no field at all
                return
            self.validate(obj, errors)
            pod_resizes.validate_resize(obj, old, errors)
        else:
            super().validate_change(subresource, obj, old, errors)

    def validate_status(self, obj: Object, old: Object, errors: FieldErrors) -> None:
        pod_updates.validate_status(obj, old, errors)

    def selectable_fields(self) -> tuple[str, ...]:
        return (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        )

    def stored_when_refused(self, obj: Object, shortfall: Shortfall) -> bool:
        resource = next(iter(shortfall.missing), "resources")
        obj["status"] |= {
            "phase": "Failed",
            "reason": f"OutOf{resource}",
            "message": f"Pod was rejected: {shortfall}",
        }
        return True

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in ENDED:
            return 0
        return int(obj["spec"].get("terminationGracePeriodSeconds", 0)) if asked is None else asked

    def waits_to_go(self, obj: Object) -> bool:
        return bool(obj["metadata"].get("deletionGracePeriodSeconds"))

    def gone_is_confirmed(self, obj: Object, user: str) -> bool:
        node = obj["spec"].get("nodeName")
        return not node or obj["status"].get("phase") in ENDED or bool(user == f"system:node:{node}")


def _keep_addresses_equal(status: dict[str, Any]) -> None:
    """podIP and the first of podIPs are one thing under two names; the single one wins."""
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        status["podIP"] = addresses[0].get("ip", "")


def _take_pull_secrets(rows: Rows, pod: Object) -> None:
    """The ServiceAccount plug-in: a Pod without imagePullSecrets gets those of its account, if there is one."""
    spec = pod["spec"]
    if not spec.get("imagePullSecrets"):
        row = rows.get(Key(kinds.SERVICE_ACCOUNT.resource, pod["metadata"]["namespace"], spec["serviceAccountName"]))
        named = (decode(row.body).get("imagePullSecrets") or ()) if row is not None else ()
        if named:
            spec["imagePullSecrets"] = [{"name": each.get("name", "")} for each in named]


def _resolve_priority(rows: Rows, pod: Object) -> None:
    """The Priority plug-in: the class named, else the global default, else 0."""
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    priority, policy = 0, "PreemptLowerPriority"
    if name in BUILT_IN_PRIORITIES:
        priority = BUILT_IN_PRIORITIES[name]
    elif name:
        row = rows.get(Key(kinds.PRIORITY_CLASS.resource, "", name))
        if row is None:
            raise Forbidden(
                f'pods "{pod["metadata"]["name"]}" is forbidden: no PriorityClass with name {name} was found'
            )
        chosen = decode(row.body)
        priority, policy = chosen.get("value", 0), chosen.get("preemptionPolicy", policy)
    else:
        general = _default_class(rows)
        if general is not None:
            spec["priorityClassName"] = general["metadata"]["name"]
            priority, policy = general.get("value", 0), general.get("preemptionPolicy", policy)
    if spec.get("priority", priority) != priority:
        raise Forbidden(
            f'pods "{pod["metadata"]["name"]}" is forbidden: the integer value of priority ({spec["priority"]}) must '
            f"not be provided in pod spec; priority admission controller computed {priority} from the given "
            "PriorityClass name"
        )
    spec["priority"] = priority
    spec.setdefault("preemptionPolicy", policy)


def _default_class(rows: Rows) -> Object | None:
    """The global default of the lowest value, as Kubernetes chooses where there are several."""
    classes = (decode(row.body) for row in rows.page(kinds.PRIORITY_CLASS.resource).rows)
    return min((each for each in classes if each.get("globalDefault")), key=lambda each: each["value"], default=None)
