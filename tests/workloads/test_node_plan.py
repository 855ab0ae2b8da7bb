import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.actions import Again, Delete, Event, Patch
from headrace.workloads.plan.nodes import (
    GRACE_SECONDS,
    NOT_READY,
    TOLERATION_SECONDS,
    UNREACHABLE,
    Bound,
    Seen,
    plan,
)

NOW = 1_800_000_000.0
SINCE = "2027-01-15T08:00:00Z"


def taints(key):
    return tuple({"key": key, "effect": effect, "timeAdded": SINCE} for effect in ("NoSchedule", "NoExecute"))


def seen(ready="True", silent=5.0, given=(), tainted=None, pods=()):
    conditions = (
        {"type": "MemoryPressure", "status": "Unknown" if ready == "Unknown" else "False"},
        {"type": "Ready", "status": ready},
    )
    return Seen("node-a", "uid", "3", conditions, tuple(given), silent, tainted or {}, tuple(pods))


def pod(name, *tolerations):
    return Bound("default", name, f"uid-{name}", tuple(tolerations))


def tolerates(seconds=None, key=UNREACHABLE):
    found = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


def again(actions):
    return next((action.seconds for action in actions if isinstance(action, Again)), None)


def deleted(actions):
    return [action.name for action in actions if isinstance(action, Delete)]


def test_a_node_that_is_heard_of_is_left_alone_until_it_could_be_silent():
    assert plan(seen(silent=5.0), NOW) == (Again(GRACE_SECONDS - 5.0),)


def test_a_silent_node_becomes_unknown_in_kubernetes_words():
    patch, event = plan(seen(silent=GRACE_SECONDS), NOW)
    assert isinstance(patch, Patch)
    assert patch.fields["status"]["conditions"] == [
        {
            "type": name,
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": SINCE,
        }
        for name in ("Ready", "MemoryPressure")
    ]
    assert isinstance(event, Event)
    assert event.reason == "NodeNotReady"


@pytest.mark.parametrize(
    ("ready", "given", "expected"),
    [
        pytest.param("Unknown", (), [UNREACHABLE, UNREACHABLE], id="unknown is unreachable"),
        pytest.param("False", (), [NOT_READY, NOT_READY], id="false is not ready"),
        pytest.param("Unknown", taints(NOT_READY), [UNREACHABLE, UNREACHABLE], id="one replaces the other"),
        pytest.param("True", taints(UNREACHABLE), [], id="ready again: both go"),
        pytest.param(
            "Unknown",
            ({"key": "mine", "effect": "NoSchedule"},),
            ["mine", UNREACHABLE, UNREACHABLE],
            id="what others have tainted stays",
        ),
    ],
)
def test_conditions_become_taints(ready, given, expected):
    (patch,) = plan(seen(ready, 5.0, given), NOW)
    assert isinstance(patch, Patch)
    assert patch.version == "3"
    assert [each["key"] for each in patch.fields["spec"]["taints"] or ()] == expected


@pytest.mark.parametrize(
    ("pods", "tainted", "gone", "wait"),
    [
        pytest.param(
            [pod("a")], 10.0, [], TOLERATION_SECONDS - 10, id="who says nothing is tolerated for five minutes"
        ),
        pytest.param([pod("a")], TOLERATION_SECONDS, ["a"], None, id="and leaves then"),
        pytest.param([pod("a", tolerates(60))], 59.0, [], 1.0, id="who says a minute, after a minute"),
        pytest.param([pod("a", tolerates(60)), pod("b", tolerates(90))], 60.0, ["a"], 30.0, id="one after the other"),
        pytest.param([pod("a", tolerates())], 10_000.0, [], None, id="who tolerates without end stays"),
        pytest.param([pod("a", tolerates(60), tolerates(30))], 30.0, ["a"], None, id="the shortest counts"),
        pytest.param([pod("a", tolerates(0))], 0.0, ["a"], None, id="none at all: at once"),
    ],
)
def test_pods_leave_after_what_they_tolerate(pods, tainted, gone, wait):
    actions = plan(seen("Unknown", 100.0, taints(UNREACHABLE), {UNREACHABLE: tainted}, pods), NOW)
    assert deleted(actions) == gone
    assert again(actions) == (None if wait is None else pytest.approx(wait))


def test_a_taint_of_somebody_else_evicts_at_once_whom_it_concerns():
    drained = ({"key": "drain", "effect": "NoExecute"},)
    pods = [pod("a"), pod("b", tolerates(key="drain"))]
    assert deleted(plan(seen(given=drained, tainted={"drain": 0.0}, pods=pods), NOW)) == ["a"]


@given(
    st.sampled_from(["True", "False", "Unknown"]),
    st.floats(0, 1000),
    st.sampled_from([(), taints(UNREACHABLE), taints(NOT_READY), taints(NOT_READY)[:1]]),
)
def test_acting_on_the_plan_ends(ready, silent, given):
    """A node needs at most three looks until nothing but waiting is left."""
    node = seen(ready, silent, given)
    for _ in range(3):
        actions = plan(node, NOW)
        patches = [action for action in actions if isinstance(action, Patch)]
        if not patches:
            break
        (patch,) = patches
        if patch.subresource == "status":
            changed = {each["type"]: each for each in patch.fields["status"]["conditions"]}
            conditions = tuple(changed.get(each["type"], each) for each in node.conditions)
            node = seen(next(each["status"] for each in conditions if each["type"] == "Ready"), silent, node.taints)
        else:
            node = seen(
                next(each["status"] for each in node.conditions if each["type"] == "Ready"),
                silent,
                patch.fields["spec"]["taints"] or (),
            )
    assert not any(isinstance(action, Patch) for action in plan(node, NOW))
