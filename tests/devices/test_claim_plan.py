"""The claim controller's decisions, as tables and laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.patches import merge
from headrace.devices.plan import (
    FINALIZER,
    ClaimSeen,
    PodSeen,
    claim_of_entry,
    generated_name,
    plan_claim,
    plan_pod,
)
from headrace.runtime.actions import Create, Delete, Event, Patch

TEMPLATE = {
    "metadata": {"name": "one-gpu", "namespace": "default"},
    "spec": {"metadata": {"labels": {"team": "ml"}}, "spec": {"devices": {"requests": [{"name": "gpu"}]}}},
}


def pod(name: str = "trainer", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "containers": [{"name": "main"}],
        },
        "status": status,
    }


def claim(*, reserved: tuple[str, ...] = (), allocated: bool = True, owner: str | None = None, **meta: Any) -> Any:
    owners = [{"kind": "Pod", "uid": f"uid-{owner}", "name": owner, "controller": True}] if owner else []
    status: dict[str, Any] = {"allocation": {"devices": {}}} if allocated else {}
    if reserved:
        status["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in reserved]
    return {
        "metadata": {
            "name": "c",
            "namespace": "default",
            "uid": "uid-c",
            "resourceVersion": "3",
            "ownerReferences": owners,
            "finalizers": [FINALIZER],
            **meta,
        },
        "status": status,
    }


def test_a_claim_is_made_from_the_template_with_its_owner_and_recorded_in_the_status():
    made, patched = plan_pod(PodSeen(pod(), {"one-gpu": TEMPLATE}, {}), now=0)
    assert isinstance(made, Create)
    assert isinstance(patched, Patch)
    name = generated_name(pod(), "gpu")
    assert made.object["metadata"]["name"] == name
    assert made.object["metadata"]["labels"] == {"team": "ml"}
    assert made.object["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert made.object["metadata"]["ownerReferences"][0]["uid"] == "uid-trainer"
    assert made.object["spec"] == TEMPLATE["spec"]["spec"]
    assert patched.fields == {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}}


def test_the_same_pod_asks_for_the_same_claim_and_another_pod_for_another():
    assert generated_name(pod(), "gpu") == generated_name(copy.deepcopy(pod()), "gpu")
    again = pod()
    again["metadata"]["uid"] = "another-life"
    assert generated_name(again, "gpu") != generated_name(pod(), "gpu")


def test_a_missing_template_is_told_by_name():
    (event,) = plan_pod(PodSeen(pod(), {"one-gpu": None}, {}), now=0)
    assert isinstance(event, Event)
    assert 'resourceclaimtemplate "one-gpu"' in event.message


def test_a_claim_of_somebody_else_under_the_name_is_left_alone_and_told():
    name = generated_name(pod(), "gpu")
    (event,) = plan_pod(PodSeen(pod(), {"one-gpu": TEMPLATE}, {name: claim(owner="other")}), now=0)
    assert isinstance(event, Event)
    assert name in event.message


def test_acting_on_a_pods_plan_leaves_nothing_to_do():
    made, patched = plan_pod(PodSeen(pod(), {"one-gpu": TEMPLATE}, {}), now=0)
    after = merge(pod(), patched.fields)
    assert claim_of_entry(after, after["spec"]["resourceClaims"][0]) == made.object["metadata"]["name"]
    assert plan_pod(PodSeen(after, {"one-gpu": TEMPLATE}, {made.object["metadata"]["name"]: made.object}), now=0) == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_gets_no_claim(phase):
    assert plan_pod(PodSeen(pod(phase=phase), {"one-gpu": TEMPLATE}, {}), now=0) == ()


@pytest.mark.parametrize(
    ("seen", "fields"),
    [
        pytest.param(
            ClaimSeen(claim(reserved=("a", "b")), {"uid-a": pod("a")}),
            {"reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}]},
            id="a consumer that is gone leaves, the other keeps the device",
        ),
        pytest.param(
            ClaimSeen(claim(reserved=("a",)), {"uid-a": pod("a", phase="Succeeded")}),
            {"reservedFor": None, "allocation": None, "devices": None},
            id="when the last consumer has finished the allocation goes in the same write",
        ),
        pytest.param(
            ClaimSeen(claim(), {}),
            {"allocation": None, "devices": None},
            id="an allocation that nobody reserved is a leftover",
        ),
    ],
)
def test_consumers_that_are_done_release_the_claim(seen, fields):
    (patch,) = plan_claim(seen, now=0)
    assert isinstance(patch, Patch)
    assert patch.fields == {"status": fields}
    assert patch.subresource == "status"


def test_a_consumer_that_is_no_pod_is_never_dropped():
    held = claim()
    held["status"]["reservedFor"] = [{"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "u"}]
    assert plan_claim(ClaimSeen(held, {}), now=0) == ()


def test_a_generated_claim_goes_with_its_pod():
    (gone,) = plan_claim(ClaimSeen(claim(allocated=False, owner="a"), {}), now=0)
    assert isinstance(gone, Delete)
    assert gone.deletion.preconditions.uid == "uid-c"


def test_the_finalizer_leaves_only_when_a_deleted_claim_holds_nothing():
    assert plan_claim(ClaimSeen(claim(reserved=("a",), deletionTimestamp="t"), {"uid-a": pod("a")}), now=0) == ()
    (patch,) = plan_claim(ClaimSeen(claim(allocated=False, deletionTimestamp="t"), {}), now=0)
    assert patch.fields == {"metadata": {"finalizers": None}}


lives = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["Running", "Succeeded", "Failed"]))


@given(
    reserved=st.lists(st.sampled_from("abcd"), unique=True, max_size=4),
    allocated=st.booleans(),
    owner=st.sampled_from(["a", "d", None]),
    deleted=st.booleans(),
    phases=lives,
)
def test_a_claim_settles_in_four_looks_and_never_takes_from_a_running_pod(reserved, allocated, owner, deleted, phases):
    pods = {f"uid-{name}": pod(name, phase=phase) for name, phase in phases.items()}
    meta = {"deletionTimestamp": "t"} if deleted else {}
    now = claim(reserved=tuple(reserved), allocated=allocated, owner=owner, **meta)
    running = {name for name in reserved if phases.get(name) == "Running"}
    for _ in range(4):
        actions = plan_claim(ClaimSeen(now, pods), now=0)
        if not actions:
            break
        for action in actions:
            if isinstance(action, Delete):
                assert not running
                return
            now = merge(now, action.fields)
    assert plan_claim(ClaimSeen(now, pods), now=0) == ()
    assert {each["name"] for each in now["status"].get("reservedFor") or ()} == running
    if running and allocated:
        assert now["status"]["allocation"]


def test_a_pod_deleted_by_force_keeps_its_devices_until_its_node_has_confirmed():
    held = claim(reserved=("a",), owner="a", deletionTimestamp="t")
    (event,) = plan_claim(ClaimSeen(held, {}, {"uid-a": "node-a"}), now=0)
    assert isinstance(event, Event)
    assert 'Pod "a"' in event.message
    assert 'node "node-a"' in event.message
    (patch,) = plan_claim(ClaimSeen(held, {}), now=0)
    assert patch.fields["status"]["allocation"] is None


def test_a_claim_that_is_kept_for_one_pod_lets_the_others_go():
    held = claim(reserved=("a", "b"))
    (patch,) = plan_claim(ClaimSeen(held, {}, {"uid-a": "node-a"}), now=0)
    assert [each["uid"] for each in patch.fields["status"]["reservedFor"]] == ["uid-a"]


def test_a_claim_is_shared_by_256_pods_and_each_leaves_alone():
    names = tuple(f"p{number}" for number in range(256))
    pods = {f"uid-{name}": pod(name) for name in names[1:]}
    (patch,) = plan_claim(ClaimSeen(claim(reserved=names), pods), now=0)
    assert len(patch.fields["status"]["reservedFor"]) == 255
    assert "allocation" not in patch.fields["status"]


NAMED = {"name": "gpu", "resourceClaimName": "c"}
MADE = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}


def placed(entry: dict[str, str], **status: Any) -> dict[str, Any]:
    on_node = pod(**status)
    on_node["spec"] |= {"nodeName": "node-a", "resourceClaims": [entry]}
    return on_node


def test_a_pod_that_came_to_its_node_without_the_scheduler_gets_its_allocated_claim_reserved():
    (patch,) = plan_pod(PodSeen(placed(NAMED), {}, {"c": claim(reserved=("other",))}), now=0)
    assert isinstance(patch, Patch)
    assert (patch.name, patch.version, patch.subresource) == ("c", "3", "status")
    assert patch.fields["status"] == {"reservedFor": claim(reserved=("other", "trainer"))["status"]["reservedFor"]}


@pytest.mark.parametrize(
    ("on_node", "found"),
    [
        pytest.param(placed(NAMED), None, id="no claim"),
        pytest.param(placed(NAMED), claim(allocated=False), id="not allocated: nobody knows where it would be"),
        pytest.param(placed(NAMED), claim(reserved=("trainer",)), id="reserved already"),
        pytest.param(placed(NAMED), claim(deletionTimestamp="2026-01-01T00:00:00Z"), id="being deleted"),
        pytest.param(placed(NAMED), claim(reserved=tuple(map(str, range(256)))), id="as many Pods as a claim may have"),
        pytest.param(placed(NAMED, phase="Succeeded"), claim(), id="a Pod that has ended"),
        pytest.param(pod() | {"spec": {"resourceClaims": [NAMED]}}, claim(), id="not on a node: the scheduler's task"),
        pytest.param(
            placed(MADE, resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "c"}]),
            claim(owner="other"),
            id="another Pod's",
        ),
    ],
)
def test_no_claim_is_reserved(on_node, found):
    actions = plan_pod(PodSeen(on_node, {"one-gpu": TEMPLATE}, {"c": found} if found else {}), now=0)
    assert not [each for each in actions if isinstance(each, Patch) and each.kind.kind == "ResourceClaim"]
