"""Strategic merge patch: each directive, and the answers of Kubernetes' own library on random objects."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.kinds import DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, POD, RESOURCE_CLAIM
from headrace.api.patches import BadPatch
from headrace.api.patches_strategic import apply
from headrace.objects import schemas
from tests.api.test_patches import recorded

KINDS = {kind.kind: kind for kind in (DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, POD, RESOURCE_CLAIM)}


def patched(obj: dict[str, Any], patch: dict[str, Any], kind: str = "Pod") -> dict[str, Any]:
    return apply(obj, patch, schemas.bare()[schemas.name_of_kind(KINDS[kind])], schemas.resolve)


def containers(*names: str, **fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, **fields} for name in names]}}


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        pytest.param(
            containers("a", "b", image="x"),
            {"spec": {"containers": [{"name": "b", "image": "y"}]}},
            {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}},
            id="an item is merged by its key",
        ),
        pytest.param(
            containers("a"),
            containers("b"),
            {"spec": {"containers": [{"name": "b"}, {"name": "a"}]}},
            id="new items come before those that the patch does not name",
        ),
        pytest.param(
            containers("a", "b"),
            {"spec": {"containers": [{"$patch": "delete", "name": "a"}]}},
            containers("b"),
            id="$patch: delete takes an item out",
        ),
        pytest.param(
            containers("a", "b"),
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
            containers("c"),
            id="$patch: replace in a list leaves only the patch's items",
        ),
        pytest.param(
            {"spec": {"nodeName": "n", "hostname": "h"}},
            {"spec": {"$patch": "replace", "hostname": "g"}},
            {"spec": {"hostname": "g"}},
            id="$patch: replace in an object leaves only the patch's fields",
        ),
        pytest.param(
            {"spec": {"nodeName": "n"}}, {"spec": {"$patch": "delete"}}, {"spec": {}}, id="$patch: delete empties"
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="a list without a merge key is replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}},
            {"metadata": {"finalizers": ["a", "c"]}},
            id="$deleteFromPrimitiveList takes values out",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c", "a"]}},
            {"metadata": {"finalizers": ["c", "a", "b"]}},
            id="lists of values merge without repetition",
        ),
        pytest.param(
            containers("a", "b", "c"),
            {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}},
            containers("c", "a", "b"),
            id="$setElementOrder sorts a list that the patch does not change",
        ),
        pytest.param(
            containers("server", "a"),
            {"spec": {"$setElementOrder/containers": [{"name": "a"}, {"name": "new"}], **containers("new")["spec"]}},
            containers("server", "a", "new"),
            id="items that only the server has keep their place",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/p"}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            id="$retainKeys drops what it does not list",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"a": None, "c": "3"}}},
            {"metadata": {"labels": {"b": "2", "c": "3"}}},
            id="null removes from a map",
        ),
        pytest.param({}, {"spec": {"nodeName": None, "hostname": "h"}}, {"spec": {"hostname": "h"}}, id="nulls vanish"),
    ],
)
def test_directives(obj: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert patched(obj, patch) == expected


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"spec": {"containers": [{"image": "x"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"containers": [{"$patch": "delete"}]}}, "does not contain declared merge key: name"),
        ({"spec": {"containers": [{"$patch": "merge", "name": "a"}]}}, "merging lists cannot yet be specified"),
        ({"spec": {"$patch": "dance"}}, "unknown patch type: dance"),
        ({"spec": {"$retainKeys": ["hostname"], "nodeName": "n"}}, "invalid patch format of retainKeys"),
        ({"metadata": {"$deleteFromPrimitiveList": ["a"]}}, "invalid patch format of primitive list"),
        (
            {"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}},
            r"doesn't match \$setElementOrder list",
        ),
        ({"spec": {"containers": ["a"]}}, "list element types are not identical"),
        ([], "invalid JSON document"),
    ],
)
def test_a_malformed_patch_is_refused(patch: Any, words: str) -> None:
    with pytest.raises(BadPatch, match=words):
        patched({"metadata": {"finalizers": ["a"]}, **containers("a")}, patch)


def test_neither_the_object_nor_the_patch_is_changed() -> None:
    for row in recorded("strategic")[:100]:
        obj, patch = copy.deepcopy(row["object"]), copy.deepcopy(row["patch"])
        with contextlib.suppress(BadPatch):
            patched(obj, patch, row["kind"])
        assert (obj, patch) == (row["object"], row["patch"])


def test_the_answers_are_those_of_kubernetes_library() -> None:
    rows = recorded("strategic")
    assert len(rows) > 300
    for row in rows:
        try:
            result = patched(row["object"], row["patch"], row["kind"])
        except BadPatch:
            assert "error" in row, row
        else:
            assert result == row.get("result"), row


labels = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
named = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)


@given(named, named, labels, labels)
def test_a_patch_without_directives_is_idempotent(have: list[str], want: list[str], old: Any, new: Any) -> None:
    obj = {"metadata": {"labels": old}, **containers(*have)}
    patch = {"metadata": {"labels": new}, **containers(*want, image="x")}
    once = patched(obj, patch)
    assert patched(once, patch) == once
    assert {each["name"] for each in once["spec"]["containers"]} == {*have, *want}
