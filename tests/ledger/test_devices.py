"""A device has one owner. Refusals name it."""

import pytest

from headrace.ledger.books import Books
from headrace.ledger.node import Shortfall
from tests.ledger.builders import claim, container, key_of, node, pod, resource_slice, result

SHARED = {"name": "gpu-s", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
PARTS = [
    {"name": "half-0", "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "20Gi"}}}]},
    {"name": "half-1", "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "20Gi"}}}]},
    {"name": "whole", "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}}]},
]
COUNTERS = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]


def books(*objects):
    found = Books()
    for revision, obj in enumerate(objects, 2):
        assert found.apply(key_of(obj), obj, revision) is None
    return found


def share(device, number, memory):
    return result(device, shareID=f"share-{number}", consumedCapacity={"memory": memory})


REFUSED = [
    pytest.param(
        [claim("first", result("gpu-0"))],
        claim("second", result("gpu-0")),
        "device gpu.example.com/node-a/gpu-0 is allocated to ResourceClaim default/first",
        id="a device that another claim has",
    ),
    pytest.param(
        [claim("first", share("gpu-s", 1, "1Gi"))],
        claim("second", result("gpu-s")),
        "device gpu.example.com/node-a/gpu-s is shared by ResourceClaim default/first",
        id="a shared device as a whole",
    ),
    pytest.param(
        [claim("first", result("gpu-s"))],
        claim("second", share("gpu-s", 1, "1Gi")),
        "device gpu.example.com/node-a/gpu-s is allocated to ResourceClaim default/first",
        id="a share of a device that another claim has as a whole",
    ),
    pytest.param(
        [resource_slice("s", SHARED), claim("first", share("gpu-s", 1, "8Gi"))],
        claim("second", share("gpu-s", 2, "4Gi")),
        "device gpu.example.com/node-a/gpu-s is too full: 4Gi of memory wanted, 2Gi of 10Gi left",
        id="more of a capacity than the other shares leave",
    ),
    pytest.param(
        [
            resource_slice("c", sharedCounters=COUNTERS),
            resource_slice("s", *PARTS),
            claim("first", result("half-0")),
        ],
        claim("second", result("whole")),
        "device gpu.example.com/node-a/whole lacks counters: 40Gi of counter card/memory wanted, 20Gi left",
        id="a partition of hardware that another partition uses",
    ),
]


@pytest.mark.parametrize(("before", "wish", "words"), REFUSED)
def test_refuses_and_names_the_owner(before, wish, words):
    found = books(*before)
    untouched = books(*before)
    answer = found.apply(key_of(wish), wish, 100)
    assert isinstance(answer, Shortfall)
    assert str(answer) == words
    assert answer.holders == ("ResourceClaim default/first",)
    assert not found.difference(untouched)


ADMITTED = [
    pytest.param([], claim("second", result("gpu-0")), id="a device that no slice tells of"),
    pytest.param([claim("first", result("gpu-0"))], claim("second", result("gpu-1")), id="another device"),
    pytest.param(
        [claim("first", result("gpu-0"))],
        claim("second", result("gpu-0", adminAccess=True)),
        id="access for administrators",
    ),
    pytest.param(
        [claim("first", result("gpu-0", adminAccess=True))],
        claim("second", result("gpu-0")),
        id="a device to which an administrator has access",
    ),
    pytest.param(
        [resource_slice("s", SHARED), claim("first", share("gpu-s", 1, "6Gi"))],
        claim("second", share("gpu-s", 2, "4Gi")),
        id="what is left of a shared device",
    ),
    pytest.param(
        [resource_slice("c", sharedCounters=COUNTERS), resource_slice("s", *PARTS), claim("first", result("half-0"))],
        claim("second", result("half-1")),
        id="a partition beside another",
    ),
    pytest.param(
        [claim("second", result("gpu-0"))], claim("second", result("gpu-0"), result("gpu-1")), id="one more device"
    ),
]


@pytest.mark.parametrize(("before", "wish"), ADMITTED)
def test_admits(before, wish):
    found = books(*before, wish)
    assert not found.difference(Books.fold((key_of(obj), obj) for obj in [*before, wish]))


def test_a_cleared_allocation_gives_its_devices_back():
    books(claim("first", result("gpu-0")), claim("first"), claim("second", result("gpu-0")))


def test_a_share_may_shrink_on_a_device_that_lost_capacity():
    smaller = SHARED | {"capacity": {"memory": {"value": "4Gi"}}}
    books(
        resource_slice("s", SHARED),
        claim("first", share("gpu-s", 1, "8Gi")),
        resource_slice("s", smaller),
        claim("first", share("gpu-s", 1, "6Gi")),
    )


def test_two_shares_of_one_id_are_the_same_pool_in_whatever_order_they_came():
    small, large = share("gpu-s", 1, "1Gi"), share("gpu-s", 1, "2Gi")
    found = books(claim("c", small), claim("c", large, small))
    assert found.pools() == books(claim("c", large, small)).pools() == books(claim("c", small, large)).pools()


def test_only_the_newest_generation_of_a_pool_counts():
    found = books(resource_slice("new", SHARED, generation=2), resource_slice("old", {"name": "gpu-9"}))
    assert list(found.pools()["gpu.example.com", "node-a"].devices) == ["gpu-s"]


USED = claim("first", result("gpu-0"), users=("web",))
WISH = claim("second", result("gpu-0"))


@pytest.mark.parametrize(
    "left",
    [
        pytest.param((None,), id="the claim is deleted by force, its finalizer gone"),
        pytest.param((claim("first"),), id="its status is cleared by hand"),
        pytest.param((claim("first", result("gpu-1"), users=("web",)),), id="another device is written in its place"),
        pytest.param(
            (claim("first", result("gpu-0")), claim("first")), id="the reservation is taken first, then the device"
        ),
        pytest.param((claim("first", result("gpu-0"), users=("other",)), None), id="it is reserved for somebody else"),
    ],
)
def test_a_device_is_not_given_on_while_a_pod_that_used_it_is_charged(left):
    """Whatever the claim loses and how: the Pod runs, is then deleted by force, and only its node's word ends that."""
    found, web = books(node(), pod("web", container(cpu="1")), USED), pod("web", container(cpu="1"))
    for revision, after in enumerate(left, 10):
        assert found.apply(key_of(USED), after, revision) is None
    assert "(let go at 10, not confirmed)" in str(found.apply(key_of(WISH), WISH, 20))
    assert found.apply(key_of(web), None, 21, confirmed=False) is None
    assert "(let go at 10, not confirmed)" in str(found.apply(key_of(WISH), WISH, 22))
    confirming = node(annotations={"confirmed-revision": 21})
    assert found.apply(key_of(confirming), confirming, 23) is None
    assert sorted(found.settled()) == [10, 21]
    assert found.apply(key_of(WISH), WISH, 24) is None


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(pod("web", container(cpu="1"), phase="Succeeded"), id="the Pod has ended"),
        pytest.param(None, id="its agent has removed the Pod"),
    ],
)
def test_what_a_claim_lost_is_free_once_its_last_pod_has_ended(end):
    two = claim("first", result("gpu-0"), users=("web", "job"))
    found = books(node(), pod("web", container(cpu="1")), pod("job", container(cpu="1")), two)
    assert found.apply(key_of(two), None, 10) is None
    assert found.apply(key_of(pod("job")), None, 11) is None
    assert found.apply(key_of(WISH), WISH, 12) is not None
    assert found.apply(key_of(pod("web")), end, 13) is None
    assert found.apply(key_of(WISH), WISH, 14) is None


def test_a_claim_that_nobody_uses_lets_go_at_once():
    found = books(node(), pod("web", container(cpu="1"), phase="Succeeded"), USED)
    assert found.apply(key_of(USED), None, 10) is None
    assert found.apply(key_of(WISH), WISH, 11) is None


def test_a_deleted_node_is_taken_for_dead_with_what_was_deleted_on_it():
    found = books(node(), pod("web", container(cpu="1")), USED)
    assert found.apply(key_of(USED), None, 10) is None
    assert found.apply(key_of(pod("web")), None, 11, confirmed=False) is None
    assert found.apply(key_of(node()), None, 12) is None
    assert found.apply(key_of(WISH), WISH, 13) is None
