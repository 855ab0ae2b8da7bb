"""PodDisruptionBudgets: what they allow, and that evictions keep to it."""

import asyncio

import pytest

from headrace.api.kinds import NAMESPACE, NODE, POD, POD_DISRUPTION_BUDGET
from headrace.api.times import to_time
from headrace.objects.local import Caller
from headrace.objects.refusals import TooManyRequests
from headrace.runtime.actions import Again, Event, Patch
from headrace.store.protocol import Deletion
from headrace.workloads.budgets import DisruptionBudgets
from headrace.workloads.plan.budgets import Seen, plan
from tests.runtime.home import controllers, open_store, running

NOW = 1_800_000_000.0


def pod(name, ready=True, owner="", deleting=False):
    meta = {"name": name, "namespace": "default", "uid": name}
    if owner:
        meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
    if deleting:
        meta["deletionTimestamp"] = to_time(NOW)
    return {"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}


def budget(status=None, **spec):
    meta = {"name": "b", "namespace": "default", "uid": "b", "resourceVersion": "7", "generation": 2}
    return {"metadata": meta, "spec": {"selector": {}, **spec}, "status": status or {}}


def judged(seen):
    """(allowed, healthy, desired, expected, the condition's reason) and the reasons of events."""
    [patch] = [each for each in plan(seen, NOW) if isinstance(each, Patch)]
    told = patch.fields["status"]
    numbers = [told.get(each) for each in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")]
    events = [each.reason for each in plan(seen, NOW) if isinstance(each, Event)]
    return (*numbers, told["conditions"][0]["reason"], *events)


TWO = (pod("a"), pod("b"))
OWNED = tuple(pod(name, owner="rs") for name in "abcd")
SCALES = {"rs": ("deployment", 5)}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(Seen(budget(minAvailable=1), TWO), (1, 2, 1, 2, "SufficientPods"), id="one of two may go"),
        pytest.param(Seen(budget(minAvailable=2), TWO), (0, 2, 2, 2, "InsufficientPods"), id="both must stay"),
        pytest.param(
            Seen(budget(minAvailable=1), (pod("a"), pod("b", ready=False), pod("c", deleting=True))),
            (0, 1, 1, 3, "InsufficientPods"),
            id="who is not ready or leaves is not healthy",
        ),
        pytest.param(
            Seen(budget(minAvailable=0)),
            (0, 0, 0, 0, "InsufficientPods", "NoPods"),
            id="without Pods nothing is allowed",
        ),
        pytest.param(Seen(budget(), TWO), (0, 2, 0, 0, "InsufficientPods"), id="a budget that says nothing"),
        pytest.param(
            Seen(budget(minAvailable="50%"), OWNED, SCALES), (1, 4, 3, 5, "SufficientPods"), id="a share is rounded up"
        ),
        pytest.param(
            Seen(budget(maxUnavailable="30%"), OWNED, SCALES),
            (1, 4, 3, 5, "SufficientPods"),
            id="of those that may miss too",
        ),
        pytest.param(
            Seen(budget(maxUnavailable=1), TWO),
            (0, 2, 0, 0, "InsufficientPods", "UnmanagedPods"),
            id="nobody says how many unmanaged Pods there should be",
        ),
        pytest.param(
            Seen(budget(maxUnavailable=1), OWNED),
            (0, None, None, None, "SyncFailed", "CalculateExpectedPodCountFailed"),
            id="a controller that is not known allows nothing",
        ),
        pytest.param(
            Seen(budget({"disruptedPods": {"a": to_time(NOW - 10)}}, minAvailable=1), TWO),
            (0, 1, 1, 2, "InsufficientPods"),
            id="one whose eviction was allowed counts as gone",
        ),
        pytest.param(
            Seen(budget({"disruptedPods": {"a": to_time(NOW - 300)}}, minAvailable=1), TWO),
            (1, 2, 1, 2, "SufficientPods"),
            id="unless it is still there after two minutes",
        ),
    ],
)
def test_what_a_budget_allows(seen, expected):
    assert judged(seen) == expected


def test_a_status_that_is_right_is_not_written_again_and_looked_at_when_an_eviction_is_overdue():
    status = {"disruptedPods": {"a": to_time(NOW - 10)}}
    [patch, again] = plan(Seen(budget(status, minAvailable=1), TWO), NOW)
    assert again == Again(111.0)
    assert plan(Seen(budget(patch.fields["status"], minAvailable=1), TWO), NOW) == (again,)


async def evict(store, name):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await store.create_subresource(POD, name, "default", "eviction", body)


@pytest.mark.looptime
async def test_an_eviction_takes_from_the_budget_and_the_next_one_waits_for_another_pod():
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(NODE, {"metadata": {"name": "node-a"}})
    agent = store.acting_as(Caller(user="system:node:node-a"))

    async def ready(name):
        spec = {"nodeName": "node-a", "containers": [{"name": "main", "image": "x"}]}
        await store.create(POD, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}, "default")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await store.patch(POD, name, "default", fields={"status": status}, subresource="status", strategic=True)

    for name in ("a", "b"):
        await ready(name)
    wanted = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await store.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": "b"}, "spec": wanted}, "default")
    with pytest.raises(TooManyRequests):
        await evict(store, "a")  # nobody has worked out what it allows
    manager = controllers(store)
    manager.add(DisruptionBudgets(manager.informers))
    async with running(manager):
        await asyncio.sleep(1)
        await evict(store, "a")
        for _ in range(2):
            with pytest.raises(TooManyRequests):
                await evict(store, "b")
            await asyncio.sleep(1)
        await agent.delete(POD, "a", "default", Deletion(grace_seconds=0))
        await ready("c")
        await asyncio.sleep(1)
        await evict(store, "b")
        status = (await store.get(POD_DISRUPTION_BUDGET, "b", "default"))["status"]
        assert (status["currentHealthy"], status["disruptionsAllowed"]) in {(2, 0), (1, 0)}
