"""What a kubelet would write into a Pod's status now: all fields the agent owns, and the patch that brings them there.

`allocatedResources` and PodScheduled belong to others and are never in it.
"""

from collections.abc import Mapping
from typing import Any

from headrace.api.quantity import parse
from headrace.api.times import to_time
from headrace.node.admitted import allocated, for_the_start
from headrace.node.containers import Memory, Problem, Run, is_ready, is_started, runs_of
from headrace.node.pod import Container, Pod, is_sidecar
from headrace.node.pods_plan import Seen, back_off_seconds, next_start, past_deadline, restarts, unsupported

RESIZE_IN_PROGRESS = "PodResizeInProgress"
DEVICES_RELEASED = "headrace.dev/DevicesReleased"
UNPREPARE_FAILED = "FailedUnprepareDynamicResources"

Resources = Mapping[str, Mapping[str, Mapping[str, str]]]
"""By container: `limits` and `requests` as read back."""


def wanted(
    seen: Seen, actual: Resources, resizing: Problem | None, address: str, now: float, stamp: float
) -> dict[str, Any]:
    """The whole of the agent's share of the status. `resizing`: a resize under way, with its error if it has one.

    `now` is what decisions go by, `stamp` the machine's wall clock, which is told to people.
    """
    pod = seen.pod
    phase = _phase(seen, now)
    status: dict[str, Any] = {
        "phase": phase,
        "observedGeneration": pod.generation,
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": pod.status.get("startTime") or to_time(stamp),
        "qosClass": pod.status.get("qosClass") or qos_class(pod),
        "conditions": _conditions(seen, phase, resizing),
        "containerStatuses": [_container(each, seen, actual, now) for each in pod.spec.containers],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [_container(each, seen, actual, now) for each in pod.spec.init_containers]
    if phase == "Failed" and past_deadline(pod, now) and not pod.deleted:
        status["reason"] = "DeadlineExceeded"
        status["message"] = "Pod was active on the node longer than the specified deadline"
    return status


def change(pod: Pod, status: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """The strategic merge patch of the fields that are not so yet; None when all are."""
    patch: dict[str, Any] = {}
    for name, value in status.items():
        if name in ("containerStatuses", "initContainerStatuses"):
            known = pod.statuses(name)
            differing = [each for each in value if not _holds(known.get(each["name"], {}), each)]
            if differing:
                patch[name] = differing
        elif name == "conditions":
            if differing := _conditions_change(pod.status.get("conditions") or (), value, now):
                patch[name] = differing
        elif not _holds(pod.status.get(name), value):
            patch[name] = value
    return patch or None


def qos_class(pod: Pod) -> str:
    """Guaranteed: every container has cpu and memory limits and requests no less. BestEffort: nobody asks for any."""
    guaranteed, anything = True, False
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        amounts = allocated(container, {})
        anything = anything or bool(amounts)
        for name in ("cpu", "memory"):
            limit = amounts.get(f"limits.{name}")
            guaranteed = guaranteed and limit is not None and parse(amounts[name]).nano == parse(limit).nano
    return "Guaranteed" if guaranteed else "Burstable" if anything else "BestEffort"


def _phase(seen: Seen, now: float) -> str:
    """kubelet's getPhase. What has ended stays ended, and nothing has ended while something still runs."""
    pod = seen.pod
    if pod.is_terminal:
        return pod.phase
    ending = pod.deleted or seen.gone or past_deadline(pod, now)
    alive = any(state.state == "running" for state in seen.states)
    for container in pod.spec.init_containers:
        last = _last(seen, container)
        if is_sidecar(container, pod):
            if (
                not ending
                and not is_started(container, last, seen.memory.get(container.name, Memory()))
                and last is None
            ):
                return "Pending"
            continue
        if last is None or last.is_running:
            return _unless(ending and not alive, "Pending")
        if not last.succeeded:
            failed = not restarts(container, pod, last) or (ending and not alive)
            return "Failed" if failed and not alive else "Pending"
    runs = [_last(seen, container) for container in pod.spec.containers]
    if any(run is None for run in runs):
        return _unless(past_deadline(pod, now) and not alive, "Pending")
    ended = [run for run in runs if run is not None and not run.is_running]
    if alive or len(ended) < len(runs):
        return "Running"
    pairs = zip(pod.spec.containers, ended, strict=True)
    if not ending and any(restarts(container, pod, run) for container, run in pairs):
        return "Running"
    return "Succeeded" if all(run.succeeded for run in ended) else "Failed"


def _unless(failed: bool, phase: str) -> str:
    return "Failed" if failed else phase


def _container(container: Container, seen: Seen, actual: Resources, now: float) -> dict[str, Any]:
    runs = runs_of(seen.pod, container.name, seen.states)
    last = runs[-1] if runs else None
    before = runs[-2] if len(runs) > 1 else None
    memory = seen.memory.get(container.name, Memory())
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "restartCount": last.attempt if last else 0,
        "ready": _told_ready(container, last, memory, seen.pod),
        "started": is_started(container, last, memory),
        "containerID": f"{seen.runtime}://{last.state.id}" if last else "",
    }
    known = seen.pod.container_status(container.name)
    if container.name in actual:
        status["resources"] = dict(actual[container.name])  # until it is read back, what was told before stays charged
    if last is not None and last.is_running:
        status["state"] = _state(running={"startedAt": to_time(last.state.started_at)})
    elif waiting := _waiting(container, seen, last, now):
        status["state"] = _state(waiting=waiting)
        status["resources"] = for_the_start(container, known) or None
        before = last
    elif last is not None:
        status["state"] = _state(terminated=_terminated(last, seen.runtime))
    if before is not None:
        status["lastState"] = {"terminated": _terminated(before, seen.runtime)}
    return status


def _told_ready(container: Container, last: Run | None, memory: Memory, pod: Pod) -> bool:
    if container in pod.spec.init_containers and not is_sidecar(container, pod):
        return last is not None and last.succeeded
    return is_ready(container, last, memory)


def _state(**state: Mapping[str, Any]) -> dict[str, Any]:
    """One of three, and the others explicitly absent: a merge would keep them."""
    return {"waiting": None, "running": None, "terminated": None} | state


def _waiting(container: Container, seen: Seen, last: Run | None, now: float) -> dict[str, Any] | None:
    """Why a container does not run although it is to; None when it has ended for good."""
    pod = seen.pod
    if last is not None and (pod.is_terminal or pod.deleted or seen.gone or not restarts(container, pod, last)):
        return None
    if problem := unsupported(container, seen.images):
        return {"reason": problem.reason, "message": problem.message}
    memory = seen.memory.get(container.name, Memory())
    if memory.problem is not None:
        return {"reason": memory.problem.reason, "message": memory.problem.message}
    if last is None:
        if seen.setup.problem is not None:
            return {"reason": "ContainerCreating", "message": seen.setup.problem.message}
        initializing = container in pod.spec.containers and pod.spec.init_containers
        return {"reason": "PodInitializing" if initializing else "ContainerCreating", "message": None}
    _, count, at = next_start(container, seen)
    if now >= at:
        return None
    delay = f"{back_off_seconds(count - 1):g}s"
    return {
        "reason": "CrashLoopBackOff",
        "message": f"back-off {delay} restarting failed container={container.name} "
        f"pod={pod.name}_{pod.namespace}({pod.uid})",
    }


def _terminated(run: Run, runtime: str) -> dict[str, Any]:
    state = run.state
    code = state.exit_code if state.exit_code is not None else 128 + (state.signal or 0)
    reason = "Completed" if code == 0 else "Error"
    if state.oom_killed:
        reason = "OOMKilled"
    elif run.lost:
        reason = "ContainerStatusUnknown"
    told: dict[str, Any] = {"exitCode": code, "reason": reason, "containerID": f"{runtime}://{state.id}"}
    if run.lost:
        return told | {"message": "The container could not be located when the agent looked for it", "signal": None}
    return told | {
        "signal": state.signal,
        "startedAt": to_time(state.started_at),
        "finishedAt": to_time(state.finished_at or state.started_at),
    }


def _conditions(seen: Seen, phase: str, resizing: Problem | None) -> list[dict[str, Any]]:
    pod = seen.pod
    ready: dict[str, Any]
    initialized: dict[str, Any]
    unready, uninitialized = [], []
    for container in pod.spec.init_containers:
        last, memory = _last(seen, container), seen.memory.get(container.name, Memory())
        done = is_started(container, last, memory) if is_sidecar(container, pod) else bool(last and last.succeeded)
        if not done:
            uninitialized.append(container.name)
        if is_sidecar(container, pod) and not is_ready(container, last, memory):
            unready.append(container.name)
    unready += [
        container.name
        for container in pod.spec.containers
        if not is_ready(container, _last(seen, container), seen.memory.get(container.name, Memory()))
    ]
    if phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        ready = {"status": "False", "reason": reason, "message": None}
        initialized = {"status": "True", "reason": reason if phase == "Succeeded" else None}
    else:
        ready = {"status": "True", "reason": None, "message": None}
        if unready:
            words = f"containers with unready status: [{' '.join(unready)}]"
            ready = {"status": "False", "reason": "ContainersNotReady", "message": words}
        initialized = {"status": "True", "reason": None, "message": None}
        if uninitialized:
            words = f"containers with incomplete status: [{' '.join(uninitialized)}]"
            initialized = {"status": "False", "reason": "ContainersNotInitialized", "message": words}
    set_up = {"status": "True" if seen.setup.state == "ready" else "False"}
    found: list[dict[str, Any]] = [
        {"type": "PodReadyToStartContainers", **set_up},
        {"type": "Initialized", **initialized},
        {"type": "Ready", **ready},
        {"type": "ContainersReady", **ready},
    ]
    if resizing is not None:
        told = {"reason": resizing.reason or None, "message": resizing.message or None}
        found.append({"type": RESIZE_IN_PROGRESS, "status": "True", **told})
    stuck = seen.setup.problem
    if stuck is not None and stuck.reason == UNPREPARE_FAILED:
        found.append({"type": DEVICES_RELEASED, "status": "False", "reason": stuck.reason, "message": stuck.message})
    elif any(each["type"] == DEVICES_RELEASED for each in pod.status.get("conditions") or ()):
        found.append({"type": DEVICES_RELEASED, "status": "True", "reason": "Released", "message": None})
    return [{**each, "observedGeneration": pod.generation} for each in found]


def _conditions_change(known: Any, conditions: list[dict[str, Any]], now: float) -> list[dict[str, Any]]:
    by_type = {each["type"]: each for each in known}
    differing: list[dict[str, Any]] = []
    for condition in conditions:
        before = by_type.get(condition["type"], {})
        if _holds(before, condition):
            continue
        moved = before.get("status") != condition["status"]
        differing.append(condition | {"lastTransitionTime": to_time(now)} if moved else condition)
    if RESIZE_IN_PROGRESS in by_type and not any(each["type"] == RESIZE_IN_PROGRESS for each in conditions):
        differing.append({"type": RESIZE_IN_PROGRESS, "$patch": "delete"})
    return differing


def _holds(known: Any, value: Any) -> bool:
    """Whether `known` already says all that `value` says. None says: absent; so does an empty text in Kubernetes."""
    if value is None or value == "":
        return known is None or known == ""
    if isinstance(value, dict):
        if not isinstance(known, dict):
            return False
        return all(_holds(known.get(name), part) for name, part in value.items())
    return bool(known == value)


def _last(seen: Seen, container: Container) -> Run | None:
    runs = runs_of(seen.pod, container.name, seen.states)
    return runs[-1] if runs else None
