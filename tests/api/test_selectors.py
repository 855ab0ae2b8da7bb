"""Selectors as kubectl writes them, as objects hold them, and what is said of those that are malformed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.selectors import (
    EVERYTHING,
    NOTHING,
    BadSelector,
    FieldTerm,
    Selector,
    fields_match,
    from_label_selector,
    parse_fields,
    parse_labels,
)


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "1"}, True),
        ("a=1", {"a": "2"}, False),
        ("a=1", {}, False),
        ("a!=1", {"a": "2"}, True),
        ("a!=1", {}, True),
        ("a=", {"a": ""}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("! a", {"a": "1"}, False),
        ("a in (1,2)", {"a": "2"}, True),
        ("a in (1, 2)", {}, False),
        ("a in ()", {"a": ""}, True),
        ("a in (,1)", {"a": ""}, True),
        ("a notin (1)", {}, True),
        ("a notin (1)", {"a": "1"}, False),
        ("a>3", {"a": "4"}, True),
        ("a>3", {"a": "x"}, False),
        ("a<3", {"a": "-1"}, True),
        ("a>3", {"a": "1_0"}, False),
        ("a>3", {"a": "9223372036854775807"}, True),
        ("a>3", {"a": "9223372036854775808"}, False),
        ("a=1,b in (2,3),!c", {"a": "1", "b": "3"}, True),
        ("in in (in)", {"in": "in"}, True),
        ("example.com/role = web", {"example.com/role": "web"}, True),
    ],
)
def test_labels(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_labels(text).matches(labels) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a=1,", "found '', expected: identifier after ','"),
        ("a in b", r"found 'b', expected: '\('"),
        ("a in (b", r"expected: ',' or '\)'"),
        ("a near b", "found 'near', expected: in, notin, =, ==, !=, gt, lt"),
        ("=1", "found '=', expected: identifier"),
        ("a=1 b=2", "expected: ',' or 'end of string'"),
        ("a=b=c", "expected: ',' or 'end of string'"),
        ("-a=1", 'Invalid value: "-a"'),
        ("a=-", 'Invalid value: "-"'),
        ("a>x", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a=" + "x" * 64, "must be no more than 63 bytes"),
        ("a" * 20_000, "must have at most"),
    ],
)
def test_what_is_no_selector(text: str, words: str) -> None:
    with pytest.raises(BadSelector, match=words):
        parse_labels(text)


@given(st.text(max_size=30))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    for parse in (parse_labels, parse_fields):
        try:
            parse(text)
        except BadSelector:
            continue


keys = st.sampled_from(["a", "b", "c"])
label_sets = st.dictionaries(keys, st.sampled_from(["1", "2"]))


@given(keys, st.sampled_from(["1", "2"]), label_sets)
def test_a_requirement_and_its_opposite_divide_all_objects(key: str, value: str, labels: dict[str, str]) -> None:
    assert parse_labels(f"{key}={value}").matches(labels) != parse_labels(f"{key}!={value}").matches(labels)
    assert parse_labels(f"{key} in ({value})").matches(labels) != parse_labels(f"{key} notin ({value})").matches(labels)
    assert parse_labels(key).matches(labels) != parse_labels(f"!{key}").matches(labels)


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {"a": "1"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
    ],
)
def test_selectors_in_objects(selector: dict[str, Any], labels: dict[str, str], expected: bool) -> None:
    assert from_label_selector(selector).matches(labels) is expected


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert from_label_selector(None) == NOTHING
    assert not NOTHING.matches({})
    assert from_label_selector({}) == EVERYTHING == Selector()
    assert EVERYTHING.matches(None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a.b=c", (FieldTerm("a.b", True, "c"),)),
        ("a==b,c!=d", (FieldTerm("a", True, "b"), FieldTerm("c", False, "d"))),
        ("a=", (FieldTerm("a", True, ""),)),
        (r"a=b\,c\=d\\e", (FieldTerm("a", True, r"b,c=d\e"),)),
    ],
)
def test_fields(text: str, expected: tuple[FieldTerm, ...]) -> None:
    assert parse_fields(text) == expected


@pytest.mark.parametrize("text", ["a", r"a=\b", "a=b=c", "a=b\\"])
def test_what_is_no_field_selector(text: str) -> None:
    with pytest.raises(BadSelector):
        parse_fields(text)


def test_an_absent_field_is_the_empty_text() -> None:
    terms = parse_fields("spec.nodeName=,status.phase!=Failed")
    assert fields_match(terms, lambda path: "")
    assert not fields_match(terms, lambda path: {"spec.nodeName": "n"}.get(path, ""))
