"""The scheduler's decision: allocate, bind last, give back when nothing fits."""

import pytest

from headrace.api.kinds import NODE, POD
from headrace.api.patches import merge
from headrace.runtime.actions import Event, Patch, Subresource
from headrace.runtime.perform import perform
from headrace.scheduling.plan import FINALIZER, Placement, Seen, plan
from headrace.store.protocol import Conflict
from tests.objects.stores import opened

NS = "default"

ALLOCATION = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}]}}
FULL = Placement("full", ("Insufficient cpu",))


def pod(**spec):
    return {
        "metadata": {"name": "trainer", "namespace": "default", "uid": "u1", "resourceVersion": "7"},
        "spec": spec,
        "status": {},
    }


def claim(name="c", *, protected=True, **status):
    meta = {"name": name, "namespace": "default", "resourceVersion": "3"}
    return {"metadata": {**meta, "finalizers": [FINALIZER] if protected else []}, "status": status}


def bindings(actions):
    return [each.body["target"]["name"] for each in actions if isinstance(each, Subresource)]


def test_the_best_node_that_fits_is_bound_and_told():
    actions = plan(Seen(pod(), (FULL, Placement("a", score=1), Placement("b", score=5))), now=0)
    assert bindings(actions) == ["b"]
    assert [each.message for each in actions if isinstance(each, Event)] == [
        "Successfully assigned default/trainer to b"
    ]


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(Seen(pod(nodeName="a"), ()), id="a bound Pod is left alone"),
        pytest.param(Seen(merge(pod(), {"metadata": {"deletionTimestamp": "t"}}), ()), id="so is a deleted one"),
    ],
)
def test_nothing_to_do(seen):
    assert plan(seen, now=0) == ()


def test_a_claim_is_allocated_and_reserved_in_one_write_before_the_binding():
    placement = Placement("a", allocations={"c": ALLOCATION})
    patch, binding, _ = plan(Seen(pod(), (placement,), {"c": claim()}), now=0)
    assert isinstance(patch, Patch)
    assert isinstance(binding, Subresource)
    consumer = {"resource": "pods", "name": "trainer", "uid": "u1"}
    stamped = {**ALLOCATION, "allocationTimestamp": "1970-01-01T00:00:00Z"}
    assert patch.fields == {"status": {"allocation": stamped, "reservedFor": [consumer]}}
    assert patch.version == "3"


def test_a_claim_without_protection_is_protected_before_anything_is_given():
    placement = Placement("a", allocations={"c": ALLOCATION})
    (patch,) = plan(Seen(pod(), (placement,), {"c": claim(protected=False)}), now=0)
    assert patch.fields == {"metadata": {"finalizers": [FINALIZER]}}


def test_a_claim_that_others_use_only_gets_one_more_consumer():
    other = {"resource": "pods", "name": "other", "uid": "u2"}
    shared = claim(allocation=ALLOCATION, reservedFor=[other])
    patch, binding, _ = plan(Seen(pod(), (Placement("a"),), {"c": shared}), now=0)
    assert [each["uid"] for each in patch.fields["status"]["reservedFor"]] == ["u2", "u1"]
    assert "allocation" not in patch.fields["status"]
    assert isinstance(binding, Subresource)


def test_when_nothing_fits_what_was_allocated_for_this_pod_alone_is_given_back():
    ours = claim("ours", allocation=ALLOCATION, reservedFor=[{"resource": "pods", "uid": "u1"}])
    shared = claim("shared", allocation=ALLOCATION, reservedFor=[{"resource": "pods", "uid": "u2"}])
    actions = plan(Seen(pod(), (FULL,), {"ours": ours, "shared": shared}), now=0)
    cleared = [each for each in actions if isinstance(each, Patch) and each.kind.kind == "ResourceClaim"]
    assert [(each.name, each.fields) for each in cleared] == [
        ("ours", {"status": {"allocation": None, "reservedFor": None, "devices": None}})
    ]
    assert bindings(actions) == []


async def test_nothing_is_taken_from_a_pod_that_was_bound_unheard_of():
    """Its own binding was written, and its watch did not tell for longer than a scheduler waits for it."""
    store = await opened()
    await store.create(NODE, {"metadata": {"name": "full"}})
    pod = await store.create(
        POD, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, NS
    )
    user = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    ours = claim("ours", allocation=ALLOCATION, reservedFor=[user])
    (check, clear, *_) = plan(Seen(pod, (FULL,), {"ours": ours}), now=0)
    answer = await perform(store, check)
    assert answer is not None
    assert answer.object == pod, "a Pod that is as it was seen is not written"
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": "full"}}
    await store.create_subresource(POD, "p", NS, "binding", {"metadata": {"name": "p"}, **target})
    with pytest.raises(Conflict):
        await perform(store, check)
    assert isinstance(clear, Patch)
    assert clear.name == "ours", "what comes after a write that fails is not done"
    await store.rows.close()


def test_the_reason_is_written_once_and_again_only_when_it_changes():
    waiting = pod()
    patch, event = plan(Seen(waiting, (FULL,)), now=0)
    assert event.message == "0/1 nodes are available: 1 Insufficient cpu."
    told = merge(waiting, patch.fields)
    assert plan(Seen(told, (FULL,)), now=0) == ()
    assert plan(Seen(told, (FULL, Placement("b", ("Too many pods",)))), now=0) != ()


def test_what_holds_on_every_node_is_said_for_all_of_them():
    actions = plan(Seen(pod(), (FULL, Placement("b")), blocked='resourceclaim "c" not found'), now=0)
    assert [each.message for each in actions if isinstance(each, Event)] == [
        '0/2 nodes are available: resourceclaim "c" not found.'
    ]


def test_an_error_of_a_selector_is_no_lack_of_room_and_says_which_plugin_met_it():
    patch, event = plan(Seen(pod(), (FULL,), failed="claim default/c: selector #0 on device d: CEL error"), now=0)
    told = 'running "DynamicResources" filter plugin: claim default/c: selector #0 on device d: CEL error'
    (condition,) = patch.fields["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("SchedulerError", told)
    assert (event.reason, event.message) == ("FailedScheduling", told)


def test_a_gated_pod_says_so():
    (patch, *_) = plan(Seen(pod(schedulingGates=[{"name": "g"}]), (Placement("a"),)), now=0)
    assert patch.fields["status"]["conditions"][0]["reason"] == "SchedulingGated"
