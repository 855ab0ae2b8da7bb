import pytest

from headrace.api.kinds import CONFIG_MAP
from headrace.runtime.actions import Delete, Patch
from headrace.workloads.plan.garbage import FOREGROUND, ORPHAN, Item, Owner, Seen, plan


def reference(uid, blocks=False):
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": blocks}


def item(name, *owners, deleting=False, finalizers=(), blocks=False):
    references = tuple(reference(uid, blocks) for uid in owners)
    return Item(CONFIG_MAP, "default", name, name, "7", deleting, tuple(finalizers), references)


def told(actions):
    words = []
    for action in actions:
        match action:
            case Delete(_, _, name, deletion):
                assert (deletion.preconditions.uid, deletion.preconditions.version) == (name, "7")
                words.append(f"delete {name} {deletion.propagation}")
            case Patch(_, _, name, fields, version):
                assert version == "7"
                (field, value), *_ = fields["metadata"].items()
                left = [each["uid"] if isinstance(each, dict) else each for each in value or ()]
                words.append(f"{name} {field} {left}")
    return words


SOLID, WAITING, ABSENT = Owner.SOLID, Owner.WAITING, Owner.ABSENT


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(Seen(item("a")), [], id="nobody owns it"),
        pytest.param(Seen(item("a", "o"), (SOLID,)), [], id="its owner is there"),
        pytest.param(Seen(item("a", "o"), (ABSENT,)), ["delete a Background"], id="its only owner is gone"),
        pytest.param(
            Seen(item("a", "o", "p"), (ABSENT, SOLID)), ["a ownerReferences ['p']"], id="one of two owners is gone"
        ),
        pytest.param(
            Seen(item("a", "o"), (WAITING,)), ["delete a Background"], id="its owner waits, and it owns nothing"
        ),
        pytest.param(
            Seen(item("a", "o"), (WAITING,), (item("b", "a"),)),
            ["delete a Foreground"],
            id="its owner waits, and it owns something itself",
        ),
        pytest.param(
            Seen(item("a", "o", finalizers=[ORPHAN]), (ABSENT,)),
            ["delete a Orphan"],
            id="its own dependents are to be orphaned",
        ),
        pytest.param(Seen(item("a", "o", deleting=True), (ABSENT,)), [], id="it is being deleted already"),
        pytest.param(
            Seen(item("o", deleting=True, finalizers=[ORPHAN, "x"]), dependents=(item("a", "o", "p"), item("b", "o"))),
            ["a ownerReferences ['p']", "b ownerReferences []"],
            id="orphans are set free before the owner goes",
        ),
        pytest.param(
            Seen(item("o", deleting=True, finalizers=[ORPHAN, "x"])),
            ["o finalizers ['x']"],
            id="without dependents left the orphan finalizer goes, others stay",
        ),
        pytest.param(
            Seen(item("o", deleting=True, finalizers=[FOREGROUND]), dependents=(item("a", "o", blocks=True),)),
            [],
            id="a dependent that blocks is waited for",
        ),
        pytest.param(
            Seen(item("o", deleting=True, finalizers=[FOREGROUND]), dependents=(item("a", "o"),)),
            ["o finalizers []"],
            id="a dependent that does not block is not waited for",
        ),
    ],
)
def test_who_goes_and_who_stays(seen, expected):
    assert told(plan(seen, 0.0)) == expected
