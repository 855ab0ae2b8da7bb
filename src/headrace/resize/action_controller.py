"""The ActionController: carries ResourceScalingActions from the decision to what was read back.

A key is a node's name (empty for Pods on none): its actions go by priority, and share the node's ledger.
"""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter

from headrace.api.amounts import CPU, MEMORY, Amounts, read
from headrace.api.kinds import CAPACITY_RESERVATION, NODE, POD, RESOURCE_SCALING_ACTION
from headrace.api.objects import Fields, Object, key_of, name_of
from headrace.ledger.legible import legible, unreadable
from headrace.ledger.node import Ledger
from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.resizing import scaling_action
from headrace.resize import actions_plan
from headrace.resize.actions_plan import Seen, is_finished, pod_key, state_of
from headrace.resize.controller import BY_NODE, bound_to, ledger_of, reserved_on
from headrace.resize.homes import EMBEDDED, Home
from headrace.runtime.actions import RESIZE, Action, Patch
from headrace.runtime.cache import Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused

BY_POD = "pod"


class ActionController:
    name = "action-controller"

    def __init__(self, informers: Informers, registry: CollectorRegistry, home: Home = EMBEDDED) -> None:
        self._home = home
        self._actions, self._pods = informers.of(RESOURCE_SCALING_ACTION), informers.of(POD)
        self._nodes = informers.of(NODE)
        self._reservations = informers.of(CAPACITY_RESERVATION) if home.guards else None
        self._pods.add_index(BY_NODE, bound_to)
        self._actions.add_index(BY_POD, lambda action: (pod_key(action),))
        self._finished = Counter(
            "headrace_scaling_actions_total",
            "ResourceScalingActions that have ended",
            ("state", "reason"),
            registry=registry,
        )
        sources = [
            Source(self._actions, self._action_changed),
            Source(self._pods, self._pod_changed),
            Source(self._nodes, self._node_changed),
        ]
        if self._reservations is not None:
            self._reservations.add_index(BY_NODE, reserved_on)
            sources.append(Source(self._reservations, self._reservation_changed))
        self.sources: Sequence[Source] = sources

    def _action_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        action = after if after is not None else before
        assert action is not None
        if before is not None and after is not None and is_finished(after) and not is_finished(before):
            self._finished.labels(state_of(after), str(after["status"].get("reason"))).inc()
        return (self._node_of(pod_key(action)),)

    def _pod_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        found = {node for pod in (before, after) if pod is not None for node in bound_to(pod)}
        pod = after if after is not None else before
        assert pod is not None
        if self._actions.indexed(BY_POD, key_of(pod)):
            found.add(self._node_of(key_of(pod)))
        return found

    def _node_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return (name_of(after or before or {}),)

    def _reservation_changed(self, before: Object | None, after: Object | None) -> Iterable[str]:
        return {node for each in (before, after) if each is not None for node in reserved_on(each)}

    def _node_of(self, pod: str) -> str:
        found = self._pods.get(pod)
        return next(iter(bound_to(found)), "") if found is not None else ""

    async def observe(self, key: str) -> Seen | None:
        if key:
            near = {key_of(each): each for each in self._pods.indexed(BY_NODE, key)}
            actions = [action for pod in near for action in self._actions.indexed(BY_POD, pod)]
        else:
            actions = [each for each in self._actions if not self._node_of(pod_key(each))]
            near = {pod: found for each in actions if (found := self._pods.get(pod := pod_key(each))) is not None}
        if not actions:
            return None
        found = {pod: legible(each) for pod, each in near.items()}
        pods = {pod: self._home.view(each) for pod, (each, _) in found.items()}
        node = self._nodes.get(key) if key else None
        reserved = self._reservations.indexed(BY_NODE, key) if self._reservations is not None else ()
        ledger = ledger_of(node, pods.values(), reserved) if node is not None else Ledger({}, {}, node=key)
        most = {} if self._home.guards else _most(node)
        unfit = {name_of(each): why for each in actions if (why := self._unfit(each, found.get(pod_key(each))))}
        return Seen(node, ledger, pods, tuple(actions), most, unfit)

    def _unfit(self, action: Object, found: tuple[Object, str] | None) -> str:
        misspelt = misspelt_action(action, self._home)
        if misspelt or found is None:
            return misspelt
        pod, why = found
        return why or self._home.left_alone(pod)

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return actions_plan.plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        """The API server's answer to a resize."""
        if not isinstance(action, Patch) or action.subresource != RESIZE:
            raise AssertionError(f"{key}: nothing here asks for capacity, yet the ledger refused {action}: {refusal}")
        return actions_plan.refused(seen, action, str(refusal), now)


def misspelt_action(action: Object, home: Home) -> str:
    """Why nobody can go by what it says, or nothing.

    Of its status no admission says anything; of the rest that of home does, where such an action cannot be created.
    """
    status: Fields = action.get("status") or {}
    told = (unreadable(f"status.{name}", status.get(name) or {}) for name in ("before", "target", "actual"))
    if (odd := next(filter(None, told), "")) or home.guards:
        return odd
    errors = FieldErrors()
    scaling_action(action["spec"], errors)
    return "; ".join(f"{cause.field}: {cause.message}" for cause in errors.causes)


def _most(node: Object | None) -> Amounts:
    status = (node or {}).get("status") or {}
    found = read(status.get("allocatable") or status.get("capacity"))
    return {name: found[name] for name in (CPU, MEMORY) if name in found}
