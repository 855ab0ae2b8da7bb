"""The PolicyManager: looks at a ResizePolicy whenever something it selects was measured, has changed or was resized.

It decides and creates ResourceScalingActions; whether there is room is the ResourceManager's to say.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.api.amounts import Amounts, larger
from headrace.api.kinds import HORIZONTAL_POD_AUTOSCALER, POD, REPLICA_SET, RESIZE_POLICY, RESOURCE_SCALING_ACTION
from headrace.api.objects import Object, key_of, metadata, name_of, namespace_of, uid_of, version_of
from headrace.ledger.legible import legible
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.resizing import resize_policy
from headrace.resize import rivals, workload
from headrace.resize.action_controller import BY_POD, misspelt_action
from headrace.resize.actions_plan import container_name, ending, is_finished, pod_key, target_of
from headrace.resize.homes import EMBEDDED, Home
from headrace.resize.monitoring import Monitoring
from headrace.resize.plan import admitted, desired
from headrace.resize.policy.decision import Container
from headrace.resize.policy.plan import Found, Misspelt, Seen, judged, plan, plan_misspelt
from headrace.resize.policy.silence import Silence
from headrace.resize.policy.spec import Policy, policy_of, selects
from headrace.runtime.actions import Action
from headrace.runtime.cache import Informer, Informers
from headrace.runtime.controller import Controller, Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused

IN_NAMESPACE = "namespace"
AGAIN_SECONDS = 30.0  # after which a Pod that could not become managed is asked for again
MARGIN_SECONDS = 30.0


class PolicyManager:
    name = "policy-manager"

    def __init__(
        self, informers: Informers, monitoring: Monitoring, wall: Callable[[], float], home: Home = EMBEDDED
    ) -> None:
        self._home = home
        self._policies, self._pods = informers.of(RESIZE_POLICY), informers.of(POD)
        self._actions, self._scalers = informers.of(RESOURCE_SCALING_ACTION), informers.of(HORIZONTAL_POD_AUTOSCALER)
        self._replica_sets = informers.of(REPLICA_SET)
        self._monitoring, self._wall = monitoring, wall
        for informer in (self._policies, self._pods, self._scalers):
            informer.add_index(IN_NAMESPACE, lambda obj: (namespace_of(obj),))
        self._actions.add_index(BY_POD, lambda action: (pod_key(action),))
        self._vertical: Informer | None = None
        self._unmanageable: dict[str, tuple[str, float]] = {}
        self._misspelt: dict[str, tuple[str, str]] = {}
        self._silences: dict[str, Silence] = {}
        self.sources: Sequence[Source] = (
            Source(self._policies),
            Source(self._pods, self._pod_changed),
            Source(self._actions, self._action_changed),
            Source(self._scalers, self._scaler_changed),
        )

    def measured(self, workload: str) -> Iterable[str]:
        """The policies that a measurement of this workload (namespace/pod/container) concerns."""
        pod = self._pods.get(workload.rpartition("/")[0])
        return self._selecting(pod) if pod is not None else ()

    def _pod_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return {key for pod in (before, after) if pod is not None for key in self._selecting(pod)}

    def _action_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        action = after if after is not None else before
        assert action is not None
        pod = self._pods.get(pod_key(action))
        return self._selecting(pod) if pod is not None else ()

    def _scaler_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return [key_of(each) for each in self._policies.indexed(IN_NAMESPACE, namespace_of(after or before or {}))]

    def _selecting(self, pod: Object) -> list[str]:
        return [key_of(each) for each in self._policies.indexed(IN_NAMESPACE, namespace_of(pod)) if selects(each, pod)]

    def follow(self, scalers: Informer) -> Source:
        """VerticalPodAutoscalers, where a cluster has them; to be watched by the controller that runs this."""
        scalers.add_index(IN_NAMESPACE, lambda obj: (namespace_of(obj),))
        self._vertical = scalers
        return Source(scalers, self._scaler_changed)

    def everything(self) -> Iterable[str]:
        """All policies: what is measured has begun or ceased to come."""
        return [key_of(policy) for policy in self._policies]

    async def observe(self, key: str) -> Seen | Misspelt | None:
        obj = self._policies.get(key)
        if obj is None or metadata(obj).get("deletionTimestamp"):
            self._misspelt.pop(key, None)
            self._silences.pop(key, None)
            return None
        if why := self._why_not(obj):
            return Misspelt(obj, why)
        policy, now = policy_of(obj), self._wall()
        self._unmanageable = {uid: told for uid, told in self._unmanageable.items() if now - told[1] < AGAIN_SECONDS}
        near = self._pods.indexed(IN_NAMESPACE, namespace_of(obj))
        owners = {key_of(pod): self._policy_of(pod, obj) for pod in near if self._is_selected(pod, policy)}
        mine = [legible(pod) for pod in near if owners.get(key_of(pod)) == policy.name]
        pods = tuple(self._home.view(pod) for pod, _ in mine)
        unreadable = {uid_of(pod): why for pod, why in mine if why}
        elders = {pod: owner for pod, owner in owners.items() if owner != policy.name}
        refused = {uid_of(pod): self._unmanageable[uid_of(pod)][0] for pod in pods if uid_of(pod) in self._unmanageable}
        readable = [pod for pod in pods if uid_of(pod) not in unreadable]
        containers = tuple(each for pod in readable for each in self._containers(pod, policy, now))
        outage, silence = self._monitoring.outage_of(key), ""
        if policy.mode != "Off" and not outage:
            looked = self._silences.setdefault(key, Silence())
            silence = looked.look(obj, policy, containers, not self._home.guards, now)
        else:
            self._silences.pop(key, None)
        asked = self._asked(pods) if policy.quota else {}
        return Seen(
            obj, policy, pods, containers, refused, self._home.guards, outage, silence, asked, elders, unreadable
        )

    def _why_not(self, policy: Object) -> str:
        """Why it cannot be followed. At home admission has seen to that; on a cluster only the schema has."""
        if self._home.guards:
            return ""
        version, why = self._misspelt.get(key_of(policy), ("", ""))
        if version != version_of(policy):
            why = _misspelt(policy)
            self._misspelt[key_of(policy)] = (version_of(policy), why)
        return why

    def _is_selected(self, pod: Object, policy: Policy) -> bool:
        if workload.is_leaving(pod):
            return False
        if not pod["spec"].get("nodeName") or not policy.selector.matches(metadata(pod).get("labels")):
            return False
        return not self._home.left_alone(pod)

    def _policy_of(self, pod: Object, obj: Object) -> str:
        """Of several policies that select a Pod the oldest has it: its name. `obj` is one of them."""
        others = [each for key in self._selecting(pod) if (each := self._policies.get(key)) is not None]
        active = [each for each in others if (each["spec"]["mode"] != "Off" and not self._why_not(each)) or each is obj]
        return name_of(sorted(active, key=_age)[0]) if active else name_of(obj)

    def _containers(self, pod: Object, policy: Policy, now: float) -> Iterable[Container]:
        if desired(pod) != admitted(pod):
            return  # a Pod is admitted as a whole: before this wish is met, or taken back, nothing else of it would be
        chain = self._owners(pod)
        owners = {(str(each["kind"]), str(each["name"])) for each in chain}
        horizontal = self._scalers.indexed(IN_NAMESPACE, namespace_of(pod))
        vertical = self._vertical.indexed(IN_NAMESPACE, namespace_of(pod)) if self._vertical is not None else ()
        since = now - policy.stabilization_seconds - MARGIN_SECONDS
        for each in pod["spec"]["containers"]:
            name = str(each["name"])
            if not policy.includes(name) or not workload.actual_limits(pod, name):
                continue  # without a limit there is nothing to be a share of
            id = workload.workload_id(pod, name)
            metrics = self._monitoring.metrics
            key = f"{namespace_of(pod)}/{policy.name}"
            is_told = not self._monitoring.outage_of(key)
            yield Container(
                pod,
                name,
                f"{chain[-1]['kind']}/{chain[-1]['name']}",
                usage=metrics.samples(id, since) if self._monitoring.is_measuring else (),
                values={
                    trigger.metric: metrics.values(id, trigger.metric, since) if is_told else ()
                    for trigger in policy.triggers
                },
                history=self._history(pod, name),
                conflicts=rivals.judged(horizontal, owners, name),
                applied=rivals.applied(vertical, owners, name),
            )

    def _history(self, pod: Object, container: str) -> tuple[Object, ...]:
        found = [
            each
            for each in self._actions.indexed(BY_POD, key_of(pod))
            if container_name(each) == container and not misspelt_action(each, self._home)
        ]
        return tuple(sorted(found, key=ending))

    def _asked(self, pods: Iterable[Object]) -> dict[str, Amounts]:
        found: dict[str, Amounts] = {}
        for pod in pods:
            for action in self._actions.indexed(BY_POD, key_of(pod)):
                if not is_finished(action) and not misspelt_action(action, self._home):
                    id = workload.workload_id(pod, container_name(action))
                    found[id] = larger(found.get(id, {}), target_of(action))
        return found

    def _owners(self, pod: Object) -> list[dict[str, Any]]:
        """Whoever makes such Pods, the last of them made by nobody: a ReplicaSet and its Deployment, or the Pod."""
        owner = _controller(pod)
        chain = [owner] if owner is not None else []
        if owner is not None and owner["kind"] == "ReplicaSet":
            replica_set = self._replica_sets.get(f"{namespace_of(pod)}/{owner['name']}")
            above = _controller(replica_set) if replica_set is not None else None
            chain += [above] if above is not None else []
        return chain or [{"kind": "Pod", "name": name_of(pod)}]

    def plan(self, seen: Seen | Misspelt, now: float) -> tuple[Action, ...]:
        """Each sample is judged once: for whoever follows performance, and for the policy."""
        if isinstance(seen, Misspelt):
            return plan_misspelt(seen, now)
        found = judged(seen, now)
        self._tell_performance(found)
        return plan(seen, found, now)

    def _tell_performance(self, found: Found) -> None:
        for container, answer in found:
            id = workload.workload_id(container.pod, container.name)
            for verdict in answer.verdicts:
                self._monitoring.judged(id, verdict.metric, verdict.value, verdict.threshold, verdict.is_degraded)

    def refused(
        self, key: str, seen: Seen | Misspelt, action: Writing, refusal: Refused, now: float
    ) -> tuple[Action, ...]:
        """A Pod whose limits do not fit cannot be managed: the next look tells it in the policy's condition."""
        name = getattr(action, "name", "")
        for pod in seen.pods if isinstance(seen, Seen) else ():
            if name_of(pod) == name:
                self._unmanageable[uid_of(pod)] = (str(refusal), now)
        return ()


def look_when_measured(
    policies: PolicyManager, controller: Controller[Seen | Misspelt], monitoring: Monitoring
) -> None:
    """New numbers wake the policies that they concern: no polling, and no waiting for a round.

    No workload: what is measured has begun or ceased to come at all.
    """

    def heard(workload: str) -> None:
        for key in policies.measured(workload) if workload else policies.everything():
            controller.queue.add(key)

    monitoring.listen(heard)


def _misspelt(policy: Object) -> str:
    """What admission says at home, where such a policy cannot be stored."""
    errors = FieldErrors()
    resize_policy(policy["spec"], errors)
    return "; ".join(f"{cause.field}: {cause.message}" for cause in errors.causes)


def _age(policy: Object) -> tuple[str, str]:
    return str(metadata(policy).get("creationTimestamp")), name_of(policy)


def _controller(obj: Object) -> dict[str, Any] | None:
    return next((each for each in metadata(obj).get("ownerReferences") or () if each.get("controller")), None)
