"""What must be so when the last fault is long past: everything is as it was asked for, and nobody is busy any more."""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.api.kinds import CAPACITY_RESERVATION, RESOURCE_SCALING_ACTION
from headrace.api.objects import Object
from headrace.api.times import from_time
from headrace.resize.plan import PENDING, admitted, desired
from headrace.resize.reservations import LONGEST_SECONDS
from headrace.runtime.manager import ControllerManager
from headrace.store.rows import Key
from tests.simulation.harness.containers import Machine
from tests.simulation.harness.laws import Laws
from tests.simulation.harness.model import RESOURCES, PodModel, amount, pod_model
from tests.simulation.harness.users import Users

Bounds = tuple[int | None, int | None]
"""Limits of cpu and memory."""


def unsettled(last: Mapping[Key, Object], laws: Laws, machines: Mapping[str, Machine], users: Users) -> Iterator[str]:
    """Law 6, object by object: what is not as it should be, in sentences."""
    for key, obj in last.items():
        if "deletionTimestamp" in obj["metadata"] and key not in laws.devices.claims:
            yield f"law 6: {key} is still being deleted: {obj['metadata']}"
        if key.resource == "pods":
            yield from _pod(key, obj, last, laws, machines)
        elif key.resource == "nodes":
            yield from _node(key, obj, users)
        elif key.resource == RESOURCE_SCALING_ACTION.resource:
            yield from _action(key, obj, last)
        elif key.resource == CAPACITY_RESERVATION.resource:
            yield from _reservation(key, obj, laws.wall())
    yield from _left_behind(last, machines)
    yield from laws.devices.unsettled(last)
    if laws.departed:
        yield f"law 6: never confirmed: {laws.departed}"


def _action(key: Key, action: Object, last: Mapping[Key, Object]) -> Iterator[str]:
    """Every action has ended, or says what it waits for: room, or a container that does not run."""
    status = action.get("status") or {}
    if status.get("state") in ("Succeeded", "Failed") or status.get("reason") == "Deferred":
        return
    pod_name, _, container = action["spec"]["workload"].partition("/")
    pod = last.get(Key("pods", key.namespace, pod_name), {})
    told = {each["name"]: each for each in _statuses(pod)}
    if not (told.get(container, {}).get("state") or {}).get("running"):
        return
    waits = [
        other
        for other, obj in last.items()
        if other != key
        and other.resource == key.resource
        and obj["spec"]["workload"] == action["spec"]["workload"]
        and (obj.get("status") or {}).get("state") == "Running"
    ]
    if status.get("state") is None and waits:
        return
    yield f"law 6: {key} has not ended, and its container runs: {status}"


def _reservation(key: Key, reservation: Object, now: float) -> Iterator[str]:
    ends = reservation["spec"].get("expirationTime")
    if ends and now > from_time(ends) + LONGEST_SECONDS:
        yield f"law 6: {key} keeps its room after its time was over at {ends}"


def _left_behind(last: Mapping[Key, Object], machines: Mapping[str, Machine]) -> Iterator[str]:
    uids = {obj["metadata"]["uid"] for obj in last.values()}
    for key, obj in last.items():
        owners = obj["metadata"].get("ownerReferences") or ()
        if owners and not any(each["uid"] in uids for each in owners):
            yield f"law 6: {key} has no owner any more, and is still there"
    for node, machine in machines.items():
        for container in machine.containers.values():
            if container.spec.pod_uid not in uids:
                yield f"law 6: {container.spec.id} is left on {node}, and its Pod {container.spec.pod} is gone"


def _node(key: Key, node: Object, users: Users) -> Iterator[str]:
    conditions = {each["type"]: each["status"] for each in (node.get("status") or {}).get("conditions") or ()}
    if conditions.get("Ready") != "True":
        yield f"law 6: node {key.name} is not Ready: {conditions}"
    taints = (node.get("spec") or {}).get("taints") or []
    if any(each["key"].startswith("node.kubernetes.io/") for each in taints):
        yield f"law 6: node {key.name} is Ready and tainted: {taints}"
    for lost in sorted(users.tainted[key.name] - {each["key"] for each in taints}):
        yield f"an acknowledged write of somebody else was lost: node {key.name} had the taint {lost}"


def _pod(
    key: Key, pod: Object, last: Mapping[Key, Object], laws: Laws, machines: Mapping[str, Machine]
) -> Iterator[str]:
    name = f"{key.namespace}/{key.name}"
    model = pod_model(pod)
    if model.ended:
        return
    if not model.node:
        yield from _unbound(name, pod, last, laws)
        return
    yield from _resize(name, pod, laws)
    wishes = pod_model({**pod, "status": {}})
    yield from _containers(name, pod, model, wishes, machines[model.node])


def _resize(name: str, pod: Object, laws: Laws) -> Iterator[str]:
    pending = _condition(pod, PENDING)
    if desired(pod) == admitted(pod):
        if pending is not None:
            yield f"law 6: {name} says {pending}, and is as large as it was wished to be"
    elif pending is None:
        yield f"law 6: {name} waits to be resized, and nobody says why: {desired(pod)}, not {admitted(pod)}"
    elif pending["reason"] == "Deferred" and _fits(pod, laws):
        yield f"law 6: the resize of {name} is Deferred, and would fit: {pending['message']}"


def _containers(name: str, pod: Object, model: PodModel, wishes: PodModel, machine: Machine) -> Iterator[str]:
    running = {each.spec.container: each for each in machine.running() if each.spec.pod_uid == model.uid}
    told = {each["name"]: each for each in _statuses(pod)}
    for container, its in model.containers.items():
        state = told.get(container, {}).get("state") or {}
        if container not in running:
            if not state.keys() & {"waiting", "terminated"}:
                yield f"law 6: {name} {container} does not run on {model.node}, and says {told.get(container)}"
            continue
        limits = running[container].limits
        real = (limits.cpu_milli, limits.memory_bytes)
        is_held = _is_held(real, its.limits, wishes.containers[container].limits)
        if not is_held and running[container].memory_used <= (its.limits[1] or 0):
            yield f"law 6: {name} {container} is limited to {real}, admitted is {its.limits}"
        reported = (told.get(container, {}).get("resources") or {}).get("limits") or {}
        if tuple(_amounts(reported)) != real:
            yield f"law 6: {name} {container} is limited to {real}, reported is {reported}"


def _is_held(real: Bounds, admitted: Bounds, wished: Bounds) -> bool:
    """To what is admitted; a growth that is not in force and that nobody desires any more may be left."""
    return all(
        has == most or (None not in (has, most, least) and (least or 0) <= (has or 0) < (most or 0))
        for has, most, least in zip(real, admitted, wished, strict=True)
    )


def _amounts(quantities: Mapping[str, Any]) -> Iterator[int | None]:
    for resource in RESOURCES:
        yield amount(resource, quantities[resource]) if resource in quantities else None


def _fits(pod: Object, laws: Laws) -> bool:
    """Whether all that is desired could be admitted now, by the naive model."""
    model = pod_model(pod)
    stripped = {
        **pod,
        "status": {**pod["status"], "containerStatuses": [_without_record(each) for each in _statuses(pod)]},
    }
    wish = pod_model(stripped).wish(model)
    others = laws.held_on(model.node, without=model.uid)
    room = laws.nodes[model.node].allocatable
    return all(others[number] + wish[number] <= room[number] for number in range(len(RESOURCES)))


def _statuses(pod: Object) -> list[Object]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _without_record(status: Object) -> Object:
    return {name: value for name, value in status.items() if name != "allocatedResources"}


def _unbound(name: str, pod: Object, last: Mapping[Key, Object], laws: Laws) -> Iterator[str]:
    wish = pod_model(pod).wish(None)
    for node, facts in laws.nodes.items():
        held = laws.held_on(node)
        if laws.devices.may_be_on(node, pod, last) and all(
            held[number] + wish[number] <= facts.allocatable[number] for number in range(len(RESOURCES))
        ):
            yield f"law 6: {name} is not bound, and fits on {node}: {wish} beside {held} of {facts.allocatable}"


def _condition(pod: Object, type: str) -> Object | None:
    found = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == type), None)


def growing(manager: ControllerManager) -> Iterator[str]:
    """Law 7: what controllers remember is bounded, and empty where nothing is under way."""
    for controller in manager._controllers:
        if len(controller.queue):
            yield f"law 7: {controller.name} still has {len(controller.queue)} keys in its queue"
        if controller._unseen:
            yield f"law 7: {controller.name} still waits for its own writes: {sorted(controller._unseen)}"
        if controller._backoff._failures:
            yield f"law 7: {controller.name} still counts failures: {controller._backoff._failures}"
    for informer in manager.informers._informers.values():
        if informer._awaited:
            yield f"law 7: the cache of {informer.kind.resource} is still waited for: {sorted(informer._awaited)}"


def stale(manager: ControllerManager, last: Mapping[Key, Object]) -> Iterator[str]:
    """Every cache is what a list would say."""
    for informer in manager.informers._informers.values():
        cached = {(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in informer}
        stored = {(key.namespace, key.name): obj for key, obj in last.items() if key.resource == informer.kind.resource}
        for name in sorted(cached.keys() | stored.keys()):
            seen, there = cached.get(name), stored.get(name)
            versions = [obj and obj["metadata"].get("resourceVersion") for obj in (seen, there)]
            if versions[0] != versions[1]:
                yield f"law 6: the cache of {informer.kind.resource} has {name} at {versions[0]}, not {versions[1]}"
