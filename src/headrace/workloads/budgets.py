"""Runs the plan for PodDisruptionBudgets: one is looked at when a Pod that it selects comes, goes or changes."""

from collections.abc import Iterable, Sequence

from headrace.api.kinds import DEPLOYMENT, POD, POD_DISRUPTION_BUDGET, REPLICA_SET
from headrace.api.objects import Fields, Object, key_of, metadata, namespace_of, uid_of
from headrace.api.selectors import from_label_selector
from headrace.runtime.actions import Action
from headrace.runtime.cache import Informer, Informers
from headrace.runtime.controller import Source
from headrace.runtime.perform import Writing
from headrace.store.protocol import Refused
from headrace.workloads.plan.budgets import Seen, controller_of, is_healthy, plan

LEGIBLE = "legible, by namespace"  # one damaged object must not stand in the way of all others of its namespace


class DisruptionBudgets:
    """A key is a budget's."""

    name = "disruption-budgets"

    def __init__(self, informers: Informers) -> None:
        self._budgets, self._pods = informers.of(POD_DISRUPTION_BUDGET), informers.of(POD)
        self._replica_sets, self._deployments = informers.of(REPLICA_SET), informers.of(DEPLOYMENT)
        self._budgets.add_index(LEGIBLE, _of_legible_budget)
        self._pods.add_index(LEGIBLE, _of_legible_pod)
        self.sources: Sequence[Source] = (
            Source(self._budgets),
            Source(self._pods, self._selecting),
            Source(self._replica_sets, self._beside),
            Source(self._deployments, self._beside),
        )

    def _selecting(self, before: Object | None, after: Object | None) -> Iterable[str]:
        if before is not None and after is not None and _facts(before) == _facts(after):
            return ()
        pods = [each for each in (before, after) if each is not None]
        return [key_of(each) for each in self._of_namespace(pods) if any(_selects(each, pod) for pod in pods)]

    def _beside(self, before: Object | None, after: Object | None) -> Iterable[str]:
        found = [each for each in (before, after) if each is not None]
        return [key_of(each) for each in self._of_namespace(found)]

    def _of_namespace(self, objects: Sequence[Object]) -> list[Object]:
        return self._budgets.indexed(LEGIBLE, namespace_of(objects[0]))

    async def observe(self, key: str) -> Seen | None:
        budget = self._budgets.get(key)
        if budget is None or metadata(budget).get("deletionTimestamp"):
            return None
        pods = [each for each in self._pods.indexed(LEGIBLE, namespace_of(budget)) if _selects(budget, each)]
        scales = {
            str(each.get("uid")): self._scale(each, namespace_of(budget)) for each in map(controller_of, pods) if each
        }
        return Seen(budget, pods, {uid: scale for uid, scale in scales.items() if scale is not None})

    def _scale(self, reference: Fields, namespace: str) -> tuple[str, int] | None:
        """Of the Deployment, where the ReplicaSet is of one."""
        found = _owner(self._replica_sets, "ReplicaSet", reference, namespace)
        above = controller_of(found) if found is not None else None
        found = (_owner(self._deployments, "Deployment", above, namespace) if above is not None else None) or found
        if found is None:
            return None
        replicas = (found.get("spec") or {}).get("replicas")
        return uid_of(found), 1 if replicas is None else int(replicas)

    def plan(self, seen: Seen, now: float) -> tuple[Action, ...]:
        return plan(seen, now)

    def refused(self, key: str, seen: Seen, action: Writing, refusal: Refused, now: float) -> tuple[Action, ...]:
        raise AssertionError(f"{key}: a budget's status asks for no capacity, yet the ledger refused: {refusal}")


def _owner(cache: Informer, kind: str, reference: Fields, namespace: str) -> Object | None:
    found = cache.get(f"{namespace}/{reference.get('name')}") if reference.get("kind") == kind else None
    return found if found is not None and uid_of(found) == reference.get("uid") else None


def _of_legible_budget(budget: Object) -> Iterable[str]:
    from_label_selector((budget.get("spec") or {}).get("selector"))
    return (namespace_of(budget),)


def _of_legible_pod(pod: Object) -> Iterable[str]:
    _facts(pod)
    return (namespace_of(pod),)


def _selects(budget: Fields, pod: Fields) -> bool:
    return from_label_selector((budget.get("spec") or {}).get("selector")).matches(metadata(pod).get("labels"))


def _facts(pod: Fields) -> tuple[object, ...]:
    return uid_of(pod), dict(metadata(pod).get("labels") or {}), controller_of(pod), is_healthy(pod)
