"""Long lists are compared as sets in time that grows as they do, and in the same words as one by one."""

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.cel.libraries import lists, sets
from headrace.cel.sameness import keys_of
from headrace.cel.values import StringMap, Uint, equal, in_list

SECONDS = 4.0  # of CPU; it takes a few milliseconds, and took minutes when each was compared with each

scalars = st.one_of(
    st.sampled_from(["", "a", "b", b"a", True, False, 0, 1, 2, None]), st.sampled_from([1.0, 0.5, Uint(1)])
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2).map(StringMap)
    ),
    max_leaves=4,
)


@given(values, values)
def test_equal_keys_are_equal_values(one: Any, other: Any) -> None:
    keys = keys_of([one], [other])
    if keys is not None:
        assert (keys[0] == keys[1]) is equal(one, other)


@given(st.lists(values, max_size=5), st.lists(values, max_size=5))
def test_sets_are_as_if_compared_one_by_one(one: list[Any], other: list[Any]) -> None:
    assert sets._contains(one, other) is all(in_list(each, one) for each in other)
    assert sets._intersects(one, other) is any(in_list(each, other) for each in one)
    distinct: list[Any] = []
    for each in one:
        if not any(equal(each, found) is True for found in distinct):
            distinct.append(each)
    assert list(map(repr, lists._distinct(one))) == list(map(repr, distinct))


def test_long_lists() -> None:
    maps = [StringMap(name=f"n{number}", at=number) for number in range(20_000)]
    started = time.process_time()
    assert sets._contains(maps, maps[::-1])
    assert not sets._intersects(maps, [StringMap(name="m"), *maps[:0]])
    assert lists._distinct(maps + maps) == maps
    assert time.process_time() - started < SECONDS
