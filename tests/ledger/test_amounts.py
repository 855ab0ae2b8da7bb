import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.amounts import larger, minus, plus, read, total, written

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(1, 9), max_size=3)


@given(one=amounts, other=amounts)
def test_what_is_added_can_be_taken_away(one, other):
    assert minus(plus(one, other), other) == one
    assert plus(one, other) == plus(other, one) == total([one, other])


@given(one=amounts, other=amounts)
def test_the_larger_of_two_covers_both_and_nothing_more(one, other):
    found = larger(one, other)
    assert found == larger(other, one)
    assert all(found[name] == max(one.get(name, 0), other.get(name, 0)) for name in found)
    assert set(found) == {*one, *other}


@pytest.mark.parametrize(
    ("resource", "text", "amount", "canonical"),
    [
        pytest.param("cpu", "1500m", 1500, "1500m", id="cpu counts millicores"),
        pytest.param("cpu", "0.0001", 1, "1m", id="a part of a millicore counts as one"),
        pytest.param("cpu", "2", 2000, "2", id="whole cores are told as such"),
        pytest.param("limits.cpu", "2", 2000, "2", id="a limit counts like its resource"),
        pytest.param("memory", "1Gi", 2**30, "1Gi", id="memory counts bytes"),
        pytest.param("memory", "1G", 10**9, "1000000000", id="bytes that are no round binary number stay digits"),
        pytest.param("example.com/card", "3", 3, "3", id="anything else counts pieces"),
        pytest.param("hugepages-2Mi", "4Mi", 4 * 2**20, "4Mi", id="huge pages count bytes"),
    ],
)
def test_quantities_are_counted_in_whole_numbers(resource, text, amount, canonical):
    assert read({resource: text}) == {resource: amount}
    assert written(resource, amount) == canonical


def test_nothing_of_a_resource_is_no_entry():
    assert read({"cpu": "0", "memory": "1"}) == {"memory": 1}
