"""What the demo asks of objects as they are stored. Nothing here prints."""

from typing import Any

from headrace.api.kinds import EVENT, NODE, POD
from headrace.cli.demo.enforced import Enforced, enforced, process_of
from headrace.cli.demo.stage import Stage, StepFailed


def is_ready(stage: Stage, node: str) -> bool:
    conditions = (stage.object(NODE, node).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def status(stage: Stage, pod: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.object(POD, pod).get("status") or {}
    return found


def waiting_message(stage: Stage, pod: str) -> str:
    return str(((_container(stage, pod).get("state") or {}).get("waiting") or {}).get("message") or "")


def is_running(stage: Stage, pod: str) -> bool:
    return "running" in (_container(stage, pod).get("state") or {})


def is_unscheduled(stage: Stage, pod: str) -> bool:
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False"
        for each in status(stage, pod).get("conditions") or ()
    )


def actual(stage: Stage, pod: str) -> dict[str, str]:
    """The limits that the agent has read back."""
    found: dict[str, str] = (_container(stage, pod).get("resources") or {}).get("limits") or {}
    return found


def pending_resize(stage: Stage, pod: str) -> dict[str, str]:
    for each in status(stage, pod).get("conditions") or ():
        if each["type"] == "PodResizePending" and each["status"] == "True":
            found: dict[str, str] = each
            return found
    return {}


def event(stage: Stage, pod: str, reason: str) -> str:
    """The message of the Pod's event with this reason; empty while there is none."""
    found = [
        str(each["message"])
        for each in stage.objects(EVENT)
        if each["reason"] == reason and each["involvedObject"].get("name") == pod
    ]
    return found[-1] if found else ""


def process(stage: Stage, pod: str) -> int:
    """0 when none runs."""
    found = stage.object(POD, pod)
    return process_of(str(found["metadata"]["uid"])) if found else 0


def enforced_on(stage: Stage, pod: str) -> Enforced:
    """As the kernel tells it of the Pod's process."""
    pid = process(stage, pod)
    if not pid:
        raise StepFailed(f"the process of Pod {pod} is not there")
    return enforced(pid)


def _container(stage: Stage, pod: str) -> dict[str, Any]:
    statuses = status(stage, pod).get("containerStatuses") or [{}]
    found: dict[str, Any] = statuses[0]
    return found
