"""Evicting a Pod: a delete that its disruption budget must have room for (pkg/registry/core/pod/storage)."""

from headrace.api.kinds import Kind
from headrace.api.objects import Object
from headrace.api.selectors import from_label_selector
from headrace.objects import deletion as deleting
from headrace.objects import refusals, writing
from headrace.objects.bodies import decode
from headrace.objects.conditions import set_condition
from headrace.objects.formats import format_time
from headrace.objects.home import Caller, Home, key_of
from headrace.objects.registry import Served
from headrace.objects.writing import Update
from headrace.store.protocol import BadRequest, Cause, Deletion, Preconditions

PROPAGATIONS = (None, "Background", "Foreground", "Orphan")
BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")


async def evict(home: Home, served: Served, name: str, namespace: str, eviction: Object, caller: Caller) -> None:
    """Delete the Pod, if its disruption budget has room. Raises TooManyRequests if it has none."""
    row = home.rows.get(key_of(served, name, namespace))
    if row is None:
        raise refusals.not_found(served.kind, name)
    pod = decode(row.body)
    options = eviction.get("deleteOptions") or {}
    wanted = options.get("preconditions") or {}
    if options.get("propagationPolicy") not in PROPAGATIONS or options.get("dryRun", ["All"]) != ["All"]:
        raise BadRequest("deleteOptions: propagationPolicy must be Background, Foreground or Orphan, dryRun [All]")
    deletion = Deletion(
        Preconditions(wanted.get("uid"), wanted.get("resourceVersion")),
        options.get("propagationPolicy"),
        options.get("gracePeriodSeconds"),
        dry_run=bool(options.get("dryRun")),
    )
    if not _is_beyond_budgets(pod):
        await _spend_budget(home, pod, namespace, caller, dry_run=deletion.dry_run)
    if not deletion.dry_run and not caller.dry_run:
        await _mark_target(home, served, name, namespace, caller)
    await deleting.delete(home, served, name, namespace, deletion, caller)


async def _mark_target(home: Home, served: Served, name: str, namespace: str, caller: Caller) -> None:
    now = format_time(home.wall())
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }

    def apply(pod: Object) -> Object:
        set_condition(pod.setdefault("status", {}), condition, now)
        return pod

    await writing.update(home, served, Update(name, namespace, apply, None, "status"), caller)


def _is_beyond_budgets(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


async def _spend_budget(home: Home, pod: Object, namespace: str, caller: Caller, *, dry_run: bool) -> None:
    budgets = [
        budget
        for budget in (decode(row.body) for row in home.rows.page(BUDGET.resource, namespace).rows)
        if from_label_selector((budget.get("spec") or {}).get("selector")).matches(pod["metadata"].get("labels"))
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        raise BadRequest(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    spec, status = budgets[0].get("spec") or {}, budgets[0].get("status") or {}
    desired = status.get("desiredHealthy", 0)
    if not _is_ready(pod) and (
        spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or status.get("currentHealthy", 0) >= desired > 0
    ):
        return
    name = budgets[0]["metadata"]["name"]
    now = format_time(home.wall())

    def apply(budget: Object) -> Object:
        _check_budget(budget)
        budget["status"]["disruptionsAllowed"] -= 1
        budget["status"].setdefault("disruptedPods", {})[pod["metadata"]["name"]] = now
        return budget

    caller = writing.as_dry_run(caller, dry_run)
    await writing.update(home, home.served(BUDGET), Update(name, namespace, apply, None, "status"), caller)


def _check_budget(budget: Object) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
    elif status.get("disruptionsAllowed", 0) > 0:
        return
    elif status.get("currentHealthy", 0) <= status.get("desiredHealthy", 0):
        message = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
            f"{status.get('currentHealthy', 0)} currently"
        )
    else:
        message = f"The disruption budget {name} does not allow evicting pods currently"
    raise refusals.TooManyRequests(
        "Cannot evict pod as it would violate the pod's disruption budget.", (Cause("DisruptionBudget", message, ""),)
    )
