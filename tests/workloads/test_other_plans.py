import pytest

from headrace.api.kinds import CONFIG_MAP, POD
from headrace.runtime.actions import Again, Delete, Patch
from headrace.workloads.plan import events, namespaces, pods

NOW = 1_800_000_000.0


def deletes(actions):
    return [action for action in actions if isinstance(action, Delete)]


def told(number, age):
    return events.Told("default", f"event-{number}", f"uid-{number}", NOW - age)


def test_events_go_an_hour_after_they_last_happened():
    seen = events.Seen((told(1, 3599), told(2, 3600), told(3, 10)))
    actions = events.plan(seen, NOW)
    assert [each.name for each in deletes(actions)] == ["event-2"]
    assert actions[-1] == Again(events.LOOK_SECONDS)


def test_there_are_never_more_events_than_the_bound_and_the_oldest_go_first():
    seen = events.Seen(tuple(told(number, number % 3000) for number in range(events.KEPT_EVENTS + 700)))
    actions = events.plan(seen, NOW)
    assert len(deletes(actions)) == events.DELETED_AT_ONCE
    assert actions[-1] == Again(events.GOING_ON_SECONDS)
    ages = {each.name: NOW - each.at for each in seen.events}
    assert min(ages[each.name] for each in deletes(actions)) > 2500


def listed(name, **facts):
    return pods.Listed("default", name, f"uid-{name}", NOW, **facts)


@pytest.mark.parametrize(
    ("pod", "goes"),
    [
        pytest.param(listed("a", bound=True), False, id="a Pod on its node"),
        pytest.param(listed("a", bound=True, orphaned_seconds=39.0), False, id="its node may come back"),
        pytest.param(listed("a", bound=True, orphaned_seconds=40.0), True, id="its node is gone"),
        pytest.param(listed("a", deleting=True), True, id="deleted before it was bound"),
        pytest.param(listed("a", deleting=True, bound=True), False, id="its agent ends it"),
        pytest.param(listed("a", terminated=True, bound=True), False, id="one that has ended is kept"),
    ],
)
def test_pods_that_nobody_will_remove(pod, goes):
    found = deletes(pods.plan(pods.Seen((pod,)), NOW))
    assert bool(found) is goes
    assert all(each.deletion.grace_seconds == 0 and each.deletion.preconditions.uid == "uid-a" for each in found)


def test_of_too_many_that_have_ended_the_oldest_go():
    many = [
        pods.Listed("default", f"pod-{number}", f"uid-{number}", NOW - number, terminated=True, bound=True)
        for number in range(pods.KEPT_TERMINATED + 3)
    ]
    names = {each.name for each in deletes(pods.plan(pods.Seen(tuple(many)), NOW))}
    assert names == {f"pod-{pods.KEPT_TERMINATED + extra}" for extra in range(3)}


def namespace(*conditions, finalizers=("kubernetes",)):
    return {
        "metadata": {"name": "team", "resourceVersion": "9", "deletionTimestamp": "2027-01-15T08:00:00Z"},
        "spec": {"finalizers": list(finalizers)},
        "status": {"phase": "Terminating", "conditions": list(conditions)},
    }


def content(name, deleting=False, finalizers=()):
    return namespaces.Content(CONFIG_MAP, name, f"uid-{name}", deleting, tuple(finalizers))


def test_content_goes_before_the_finalizer():
    seen = namespaces.Seen(
        namespace(), (content("a"), content("b", deleting=True, finalizers=["x"])), {"configmaps": 2, "secrets": 1}
    )
    actions = namespaces.plan(seen, NOW)
    assert [each.name for each in deletes(actions)] == ["a"]
    (patch,) = [action for action in actions if isinstance(action, Patch)]
    assert patch.subresource == "status"
    assert [each["message"] for each in patch.fields["status"]["conditions"]] == [
        "Some resources are remaining: configmaps has 2 resource instances, secrets has 1 resource instances",
        "Some content in the namespace has finalizers remaining: x in 1 resource instances",
    ]
    again = namespaces.plan(
        namespaces.Seen(namespace(*patch.fields["status"]["conditions"]), seen.content, seen.counts), NOW + 60
    )
    assert not any(isinstance(action, Patch) for action in again)


def test_pods_go_before_the_rest():
    pod = namespaces.Content(POD, "p", "uid-p")
    going = namespaces.Content(POD, "p", "uid-p", deleting=True)
    counts = {"configmaps": 1, "pods": 1}
    asked = deletes(namespaces.plan(namespaces.Seen(namespace(), (content("a"), pod), counts), NOW))
    assert [each.name for each in asked] == ["p"]
    assert not deletes(namespaces.plan(namespaces.Seen(namespace(), (content("a"), going), counts), NOW))


def test_an_empty_namespace_is_let_go_and_other_finalizers_stay():
    (patch,) = namespaces.plan(namespaces.Seen(namespace(finalizers=("kubernetes", "mine"))), NOW)
    assert (patch.subresource, patch.fields, patch.version) == ("finalize", {"spec": {"finalizers": ["mine"]}}, "9")
    assert namespaces.plan(namespaces.Seen(namespace(finalizers=("mine",))), NOW) == ()
