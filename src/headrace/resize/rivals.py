"""Who else decides about a container's CPU and memory: Kubernetes' autoscalers, horizontal and vertical. Pure.

What an HPA judges must not move under it; what a VPA applies would be fought over.
"""

from collections.abc import Iterable, Set

from headrace.api.amounts import CPU, MEMORY
from headrace.api.kinds import Kind
from headrace.api.objects import Object

VERTICAL_POD_AUTOSCALER = Kind("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers")
"""A CRD of others, which a cluster may have."""
PASSIVE = ("Off", "Initial")  # modes of a VPA that leave running Pods alone
EVERY_CONTAINER = "*"

Owners = Set[tuple[str, str]]
"""Kind and name of whatever makes a Pod."""


def judged(scalers: Iterable[Object], owners: Owners, container: str) -> frozenset[str]:
    """The resources of this container that HPAs of its owners judge: its own, or those of all containers together."""
    found = set()
    for scaler in scalers:
        target = scaler["spec"]["scaleTargetRef"]
        if (target["kind"], target["name"]) not in owners:
            continue
        for metric in scaler["spec"].get("metrics") or ():
            told = metric.get("resource") or metric.get("containerResource") or {}
            if "name" in told and told.get("container", container) == container:
                found.add(str(told["name"]))
    return frozenset(found)


def applied(scalers: Iterable[Object], owners: Owners, container: str) -> frozenset[str]:
    """The resources of this container that VPAs of its owners change while it runs."""
    found: set[str] = set()
    for scaler in scalers:
        spec = scaler.get("spec") or {}
        target = spec.get("targetRef") or {}
        mode = (spec.get("updatePolicy") or {}).get("updateMode")
        if (target.get("kind"), target.get("name")) not in owners or mode in PASSIVE:
            continue
        policies = {
            str(each.get("containerName")): each
            for each in (spec.get("resourcePolicy") or {}).get("containerPolicies") or ()
        }
        policy = policies.get(container) or policies.get(EVERY_CONTAINER) or {}
        if policy.get("mode") != "Off":
            found |= set(policy.get("controlledResources") or (CPU, MEMORY))
    return frozenset(found)
