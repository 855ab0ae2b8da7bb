"""A workload is a container of a Pod. What of it is desired, admitted and actual, and which state that is.

Actual is what the agent read back from what enforces it; nothing here takes a request for a result.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.api.amounts import CPU, LIMITS, MEMORY, Amounts, read, written
from headrace.api.objects import Fields, Object, metadata, name_of, namespace_of
from headrace.ledger.pods import LISTS, TERMINAL
from headrace.objects.qos import qos_class
from headrace.resize.plan import (
    IN_PROGRESS,
    INFEASIBLE,
    PENDING,
    RESIZED,
    admitted,
    condition_of,
    desired,
    has_ended,
    is_met,
    record_of,
)
from headrace.resize.sync import Sync

READY = "Ready"
FIELDS = ("containers", "initContainers")

MISMATCH, RUNTIME_FAILURE, MEMORY_IN_USE = "StateMismatch", "RuntimeUpdateFailure", "MemoryInUse"
AGENT_UNAVAILABLE, VERIFICATION_FAILED = "NodeAgentUnavailable", "ResourceVerificationFailed"
BEGINNINGS: Final = {
    "InsufficientCPU": "Insufficient CPU",
    "InsufficientMemory": "Insufficient Memory",
    "ResourceValidationFailed": "Resource Validation Failed",
    INFEASIBLE: "Resource Validation Failed",
    MISMATCH: "State Mismatch",
    MEMORY_IN_USE: "Memory In Use",
    AGENT_UNAVAILABLE: "NodeAgent Unavailable",
    VERIFICATION_FAILED: "Resource Verification Failed",
}
"""How messages begin, by reason."""
UNREADABLE = "what is in force cannot be read"
IN_USE = ("bytes in use", "below current usage")
"""How our agent, and how a kubelet says that a memory limit cannot shrink."""


@dataclass(frozen=True, slots=True)
class Judged:
    """`reason` and `message` where the state does not speak for itself."""

    sync: Sync
    reason: str = ""
    message: str = ""


def container_of(pod: Fields, name: str) -> Fields | None:
    for field in FIELDS:
        for each in (pod.get("spec") or {}).get(field) or ():
            if each.get("name") == name:
                return dict(each)
    return None


def field_of(pod: Fields, name: str) -> str:
    """`containers` or `initContainers`."""
    found = [field for field in FIELDS for each in (pod.get("spec") or {}).get(field) or () if each.get("name") == name]
    return found[0] if found else FIELDS[0]


def status_of(pod: Fields, name: str) -> Fields:
    for field in ("containerStatuses", "initContainerStatuses"):
        for each in (pod.get("status") or {}).get(field) or ():
            if each.get("name") == name:
                return dict(each)
    return {}


def is_leaving(pod: Fields) -> bool:
    """Ended or being deleted: nothing of it is resized any more."""
    return (pod.get("status") or {}).get("phase") in TERMINAL or bool(metadata(pod).get("deletionTimestamp"))


def is_over(pod: Fields, name: str) -> bool:
    """Whether this container has ended for good, such as one that only prepares the others: it is not resized."""
    return has_ended(pod, field_of(pod, name), name)


def is_decided(pod: Fields) -> bool:
    """Whether all that is desired is admitted, or why it waits is told. Without a node nobody decides."""
    if desired(pod) == admitted(pod) or is_leaving(pod) or not (pod.get("spec") or {}).get("nodeName"):
        return True
    told = condition_of(pod, PENDING)
    return told is not None and told.get("observedGeneration") == metadata(pod).get("generation")


def limits_in(record: Amounts) -> Amounts:
    """The limits of what allocatedResources records."""
    return {name: record[f"{LIMITS}{name}"] for name in RESIZED if f"{LIMITS}{name}" in record}


def desired_limits(pod: Fields, name: str) -> Amounts:
    return limits_in(desired(pod)[field_of(pod, name)].get(name, {}))


def admitted_limits(pod: Fields, name: str) -> Amounts:
    return limits_in(admitted(pod)[field_of(pod, name)].get(name, {}))


def actual_limits(pod: Fields, name: str) -> Amounts | None:
    """None until the agent has told."""
    told = status_of(pod, name).get("resources")
    return read(told.get("limits")) if told else None


def is_ready(node: Fields | None) -> bool:
    """Whether the node's agent reports. A node without the condition is believed to."""
    if node is None:
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return all(each.get("status") == "True" for each in conditions if each.get("type") == READY)


def judge(pod: Fields, name: str, node: Fields | None) -> Judged:
    """How far desired, admitted and actual of one container agree."""
    if message := _nowhere(pod):
        return Judged("PENDING", "NotRunning", message)
    if not is_ready(node):
        return Judged(
            "FAILED", AGENT_UNAVAILABLE, "NodeAgent Unavailable: its node is not Ready, the actual state is unknown"
        )
    field = field_of(pod, name)
    if desired(pod)[field].get(name) != admitted(pod)[field].get(name):
        waits = condition_of(pod, PENDING) or {}
        return Judged("PENDING", str(waits.get("reason", "")), str(waits.get("message", "")))
    told = status_of(pod, name)
    if not (told.get("state") or {}).get("running") and told.get("state"):
        return Judged(
            "PENDING", "NotRunning", "the container does not run: what is admitted is applied at the next start"
        )
    actual = actual_limits(pod, name)
    if actual is None and told.get("state") and not admitted(pod)[field].get(name):
        return Judged("SYNCHRONIZED")  # nothing was asked for, and nothing is in force
    if actual is None:
        return Judged("UNKNOWN", "", "the agent has not told yet what is in force")
    problem = str((condition_of(pod, IN_PROGRESS) or {}).get("message") or "")
    if UNREADABLE in problem:
        return Judged("FAILED", VERIFICATION_FAILED, problem)
    if is_met(admitted(pod)[field].get(name, {}), actual):
        return Judged("SYNCHRONIZED")
    if not problem:
        return Judged("APPLYING")
    reason = reason_of(problem)
    return Judged("DRIFT_DETECTED" if reason == MISMATCH else "FAILED", reason, problem)


def _nowhere(pod: Fields) -> str:
    """Why no agent has it."""
    if not (pod.get("spec") or {}).get("nodeName"):
        return "the Pod is on no node yet: it is placed with what is desired"
    has_ended = (pod.get("status") or {}).get("phase") in TERMINAL
    return "the Pod has ended: nothing of it is resized any more" if has_ended else ""


def reason_of(problem: str) -> str:
    """The word for what hinders an agent, by what it says."""
    if UNREADABLE in problem:
        return VERIFICATION_FAILED
    if "was read back" in problem:
        return MISMATCH
    return MEMORY_IN_USE if any(words in problem for words in IN_USE) else RUNTIME_FAILURE


def runtime_of(node: Fields | None) -> str:
    """`podman://4.3.1`; empty when the node has not told."""
    return str((((node or {}).get("status") or {}).get("nodeInfo") or {}).get("containerRuntimeVersion") or "")


def begun(reason: str, message: str, node: Fields | None) -> str:
    """The message behind the design's words for its reason, which may name the node's runtime."""
    update = "Podman Update Failure" if runtime_of(node).startswith("podman") else "Runtime Update Failure"
    beginning = {**BEGINNINGS, RUNTIME_FAILURE: update}.get(reason)
    return message if beginning is None or message.startswith(beginning) else f"{beginning}: {message}"


def resized(pod: Object, name: str, target: Amounts) -> dict[str, Any]:
    """The container's resources with these limits. A request that equals its limit goes with it; none exceeds it."""
    container = container_of(pod, name) or {}
    resources: dict[str, Any] = dict(container.get("resources") or {})
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    had_limits, had_requests = read(limits), read(requests)
    for resource, amount in target.items():
        text = written(resource, amount)
        equal = had_requests.get(resource) == had_limits.get(resource)
        if resource in requests and (equal or had_requests.get(resource, 0) > amount):
            requests[resource] = text
        limits[resource] = text
    return resources | {"limits": limits} | ({"requests": requests} if requests else {})


def with_resources(pod: Object, name: str, resources: Mapping[str, Any]) -> Object:
    """The Pod as it would be with these desired resources."""
    field = field_of(pod, name)
    containers = [
        {**each, "resources": dict(resources)} if each["name"] == name else each for each in pod["spec"][field]
    ]
    return {**pod, "spec": {**pod["spec"], field: containers}}


def as_admitted(pod: Object, name: str) -> Object:
    """The Pod as if just this container's desired resources were admitted; the others stay as they are."""
    status = dict(pod.get("status") or {})
    statuses = dict(LISTS)[field_of(pod, name)]
    told = {each.get("name"): each for each in status.get(statuses) or ()}
    container = container_of(pod, name) or {}
    record = dict(record_of(container))
    told[name] = {**told.get(name, {"name": name}), "allocatedResources": record}
    return {**pod, "status": {**status, statuses: list(told.values())}}


def changes_qos(pod: Object, after: Object) -> bool:
    """Kubernetes never changes the class of a Pod that exists."""
    return qos_class(pod["spec"]) != qos_class(after["spec"])


def workload_id(pod: Fields, container: str) -> str:
    return f"{namespace_of(pod)}/{name_of(pod)}/{container}"


def words(amounts: Amounts) -> str:
    """`cpu 500m, memory 1Gi`."""
    return ", ".join(f"{name} {written(name, amounts[name])}" for name in (CPU, MEMORY) if name in amounts) or "nothing"
