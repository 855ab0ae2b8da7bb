"""Merge and JSON patches: RFC 7386 and 6902, the reading of Kubernetes' library, and the limits."""

import contextlib
import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.limits import PATCH_OPERATIONS
from headrace.api.patches import BadPatch, PatchTooLarge, apply_json, merge

VECTORS = Path(__file__).parent / "vectors" / "patches.jsonl.gz"

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
)
objects = st.dictionaries(st.text("ab/~", max_size=2), documents, max_size=4)


def recorded(kind: str) -> list[dict[str, Any]]:
    with gzip.open(VECTORS) as lines:
        return [row for row in map(json.loads, lines) if row["type"] == kind]


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_is_rfc_7386(document: Any, patch: Any, expected: Any) -> None:
    assert merge(document, patch) == expected


@given(objects, objects)
def test_a_merge_patch_changes_neither_document_nor_patch_and_is_idempotent(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    once = merge(document, patch)
    assert (document, patch) == before
    assert merge(once, patch) == once


def operation(op: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **more}


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        pytest.param({"a": 1}, [operation("add", "/b", value=2)], {"a": 1, "b": 2}, id="add a field"),
        pytest.param({"a": [1]}, [operation("add", "/a/0", value=2)], {"a": [2, 1]}, id="add before an item"),
        pytest.param({"a": [1]}, [operation("add", "/a/-", value=2)], {"a": [1, 2]}, id="append"),
        pytest.param({"a": [1]}, [operation("add", "/a/-1", value=2)], {"a": [1, 2]}, id="count from the end"),
        pytest.param({"a": 1}, [operation("remove", "/a")], {}, id="remove"),
        pytest.param({"a": 1}, [operation("replace", "/a", value=2)], {"a": 2}, id="replace"),
        pytest.param({}, [operation("replace", "/a", value=2)], {"a": 2}, id="replace may add a field"),
        pytest.param({"a": 1}, [operation("replace", "", value={"b": 1})], {"b": 1}, id="replace the document"),
        pytest.param({"a": 1}, [operation("move", "/b", **{"from": "/a"})], {"b": 1}, id="move"),
        pytest.param({"a": [1]}, [operation("copy", "/b", **{"from": "/a"})], {"a": [1], "b": [1]}, id="copy"),
        pytest.param({"a": {"b": [1]}}, [operation("test", "/a", value={"b": [1]})], {"a": {"b": [1]}}, id="test"),
        pytest.param({}, [operation("test", "/a", value=None)], {}, id="what is not there is null to a test"),
        pytest.param({"a/b~c": 1}, [operation("remove", "/a~1b~0c")], {}, id="escapes"),
    ],
)
def test_operations(document: Any, operations: Any, expected: Any) -> None:
    assert apply_json(document, operations) == expected


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([operation("remove", "/b")], "Unable to remove nonexistent key: b: missing value"),
        ([operation("remove", "/list/7")], "Unable to access invalid index: 7: invalid index referenced"),
        ([operation("replace", "/b/c", value=1)], "doc is missing path: /b/c: missing value"),
        ([operation("add", "/list/x", value=1)], "value was not a proper array index: 'x'"),
        ([operation("test", "/a", value=2)], "testing value /a failed: test failed"),
        ([operation("test", "/true", value=1)], "testing value /true failed: test failed"),
        ([operation("remove", "")], "doc is missing path"),
        ([operation("dance", "/a")], "Unexpected kind: dance"),
        ([{"op": "add"}], "failed to decode path"),
        ({"op": "add"}, "cannot unmarshal object"),
        ([1], "cannot unmarshal"),
    ],
)
def test_an_operation_that_does_not_apply_is_named(operations: Any, words: str) -> None:
    with pytest.raises(BadPatch, match=words):
        apply_json({"a": 1, "list": [1], "true": True}, operations)


def test_a_failed_patch_leaves_the_document() -> None:
    document = {"a": [1, 2]}
    with pytest.raises(BadPatch):
        apply_json(document, [operation("remove", "/a/0"), operation("remove", "/b")])
    assert document == {"a": [1, 2]}


def test_a_document_cannot_be_doubled_without_end() -> None:
    doubling = [operation("copy", f"/a/{step}", **{"from": "/a"}) for step in range(40)]
    with pytest.raises(PatchTooLarge):
        apply_json({"a": {"text": "x" * 1000}}, doubling)


def test_a_document_cannot_be_nested_without_end() -> None:
    nesting = [operation("move", "/b/b", **{"from": "/b"}) for _ in range(3)]
    deep: Any = {}
    for _ in range(120):
        deep = {"b": deep}
    with pytest.raises(PatchTooLarge, match="nested deeper"):
        apply_json({}, [operation("add", "/b", value=deep), *nesting])


def test_operations_are_counted() -> None:
    with pytest.raises(PatchTooLarge, match="maximum operations in a JSON patch is 10000, got 10001"):
        apply_json({}, [operation("test", "/a", value=None)] * (PATCH_OPERATIONS + 1))


@given(objects, st.lists(st.sampled_from(["/a", "/b", "/a/0", "/a/b", "/~1", ""]), max_size=4), documents)
def test_a_json_patch_ends_in_a_document_or_a_refusal(document: Any, paths: list[str], value: Any) -> None:
    before = copy.deepcopy(document)
    verbs = ("add", "remove", "replace", "test")
    operations = [operation(verbs[number % 4], path, value=value) for number, path in enumerate(paths)]
    with contextlib.suppress(BadPatch):
        apply_json(document, operations)
    assert document == before


@pytest.mark.parametrize("kind", ["merge", "json"])
def test_the_answers_are_those_of_kubernetes_library(kind: str) -> None:
    rows = recorded(kind)
    assert len(rows) > 30
    for row in rows:
        try:
            result = merge(row["object"], row["patch"]) if kind == "merge" else apply_json(row["object"], row["patch"])
        except BadPatch:
            assert "error" in row, row
        else:
            assert result == row.get("result"), row
