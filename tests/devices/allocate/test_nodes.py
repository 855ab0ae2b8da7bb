"""Node selectors of slices and devices, as core/v1 has them."""

from typing import Any

import pytest

from headrace.devices.allocate.nodes import InvalidSelector, is_for_node, selector_matches

NODE = {"metadata": {"name": "n1", "labels": {"zone": "a", "cpus": "8", "empty": ""}}}


def term(*expressions: tuple[str, str, list[str]], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    requirements = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    return {"matchExpressions": requirements, "matchFields": fields or []}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        pytest.param([term(("zone", "In", ["a", "b"]))], True, id="one of the values"),
        pytest.param([term(("zone", "In", ["b"]))], False, id="none of the values"),
        pytest.param([term(("zone", "NotIn", ["b"]))], True, id="not among the values"),
        pytest.param([term(("other", "NotIn", ["b"]))], True, id="a label that is not there is not among them"),
        pytest.param([term(("empty", "Exists", []))], True, id="a label without value exists"),
        pytest.param([term(("other", "DoesNotExist", []))], True, id="no such label"),
        pytest.param([term(("cpus", "Gt", ["7"]))], True, id="greater, as numbers"),
        pytest.param([term(("cpus", "Lt", ["10"]))], True, id="less, as numbers"),
        pytest.param([term(("zone", "Gt", ["1"]))], False, id="a label that is no number is not greater"),
        pytest.param([term(("zone", "In", ["a"]), ("cpus", "In", ["9"]))], False, id="all requirements of a term"),
        pytest.param([term(("zone", "In", ["b"])), term(("cpus", "Exists", []))], True, id="any of the terms"),
        pytest.param([term()], False, id="a term without requirements matches nothing"),
        pytest.param([], False, id="no terms match nothing"),
    ],
)
def test_selector(terms: list[dict[str, Any]], matches: bool) -> None:
    assert selector_matches({"nodeSelectorTerms": terms}, NODE) is matches


@pytest.mark.parametrize(("values", "matches"), [(["n1"], True), (["n2"], False)])
def test_a_field_is_the_nodes_name(values: list[str], matches: bool) -> None:
    field = {"key": "metadata.name", "operator": "In", "values": values}
    assert selector_matches({"nodeSelectorTerms": [term(fields=[field])]}, NODE) is matches


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        pytest.param(term(("zone", "Like", ["a"])), "Unsupported value", id="an unknown operator"),
        pytest.param(term(("zone", "In", [])), "values set can't be empty", id="In without values"),
        pytest.param(term(("cpus", "Gt", ["x"])), "the value must be an integer", id="Gt of no number"),
        pytest.param(
            term(fields=[{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]),
            "must have one element",
            id="a field with two values",
        ),
    ],
)
def test_what_does_not_parse_is_an_error_that_names_the_field(broken: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSelector, match=words) as error:
        selector_matches({"nodeSelectorTerms": [term(("zone", "In", ["a"])), broken]}, NODE)
    assert str(error.value).startswith("nodeSelectorTerms[1].")


def test_a_name_goes_before_all_nodes_and_selector() -> None:
    assert not is_for_node({"nodeName": "n2", "allNodes": True}, NODE)
    assert is_for_node({"allNodes": True}, NODE)
    assert not is_for_node({}, NODE)


WRONG = [
    ({"key": "zone", "operator": "Odd"}, 'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'),
    ({"key": "a/b/c", "operator": "Exists"}, 'key: Invalid value: "a/b/c": a valid label key must consist of'),
    ({"key": "zone", "operator": "In", "values": ["x y"]}, 'values[0][zone]: Invalid value: "x y": a valid label'),
]


@pytest.mark.parametrize(("requirement", "words"), WRONG, ids=["operator", "key", "value"])
def test_a_selector_that_cannot_be_read_is_refused_in_kubernetes_words(requirement: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSelector) as refused:
        selector_matches({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}, {"metadata": {"name": "n"}})
    assert words in str(refused.value)


@pytest.mark.parametrize(("given", "told"), [({"values": []}, r"\[\]"), ({}, "null")], ids=["an empty list", "no list"])
def test_values_that_are_missing_are_told_as_they_were_given(given: dict[str, Any], told: str) -> None:
    for requirement in (
        {"matchFields": [{"key": "metadata.name", "operator": "In", **given}]},
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", **given}]},
    ):
        with pytest.raises(InvalidSelector, match=f"values: Invalid value: {told}: "):
            selector_matches({"nodeSelectorTerms": [requirement]}, NODE)
