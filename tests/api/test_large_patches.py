"""Patches of long lists, and of many operations, take time that grows as they do: everybody waits for them."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api import patches, patches_strategic

SECONDS = 4.0  # of CPU; each of these takes 0.2 at most, and took 25 to 60 when it grew with the square
MANY = 10_000
ITEM = {"properties": {"name": {"type": "string"}, "value": {"type": "string"}}}
SCHEMA = {
    "properties": {
        "named": {
            "type": "array",
            "items": ITEM,
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name",
        },
        "words": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
    }
}
NAMED = [{"name": f"n{number}", "value": "x"} for number in range(MANY)]
WORDS = [f"w{number}" for number in range(MANY)]
OBJECT = {"named": NAMED, "words": WORDS}


def timely(work: Callable[[], Any]) -> Any:
    started = time.process_time()
    found = work()
    assert time.process_time() - started < SECONDS
    return found


@pytest.mark.parametrize(
    ("patch", "named", "words"),
    [
        pytest.param({"named": [{**each, "value": "y"} for each in NAMED]}, MANY, MANY, id="every item changes"),
        pytest.param({"named": NAMED[::-1]}, MANY, MANY, id="the same in another order"),
        pytest.param({"named": [{"name": f"m{n}"} for n in range(MANY)]}, 2 * MANY, MANY, id="as many new items"),
        pytest.param({"named": [{"$patch": "delete", **each} for each in NAMED]}, 0, MANY, id="every item goes"),
        pytest.param({"$setElementOrder/named": NAMED[::-1]}, MANY, MANY, id="an order"),
        pytest.param({"words": [*WORDS[::-1], "new"]}, MANY, MANY + 1, id="words that are there"),
        pytest.param({"$deleteFromPrimitiveList/words": WORDS[::-1]}, MANY, 0, id="every word goes"),
    ],
)
def test_a_strategic_patch_of_a_long_list(patch: dict[str, Any], named: int, words: int) -> None:
    patched = timely(lambda: patches_strategic.apply(OBJECT, patch, SCHEMA, lambda schema: schema))
    assert (len(patched["named"]), len(patched["words"])) == (named, words)


@pytest.mark.parametrize("name", ["move", "copy", "test"])
def test_operations_on_something_large(name: str) -> None:
    small = {"from": "/words/5", "path": "/word"}
    large = {"from": "/named", "path": "/named", "value": NAMED[:1]}
    operations = [{"op": name, **(small if name == "copy" else large)}] * patches.PATCH_OPERATIONS
    if name == "test":
        with pytest.raises(patches.BadPatch, match="test failed"):
            timely(lambda: patches.apply_json(OBJECT, operations))
    else:
        assert timely(lambda: patches.apply_json(OBJECT, operations))["named"] == NAMED


def test_what_moves_made_too_deep_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(60):
        deep = {"a": deep}
    document = {"one": deep, "other": deep}
    path = "/other" + "/a" * 50
    assert patches.apply_json(document, [{"op": "move", "from": "/one", "path": "/three"}])["three"] == deep
    with pytest.raises(patches.PatchTooLarge, match="nested deeper than 100 levels"):
        patches.apply_json(document, [{"op": "move", "from": "/one", "path": path}])


@given(st.lists(st.sampled_from(["a", "b", "c", 1, True, 1.0, None, "d", "e"]), max_size=24))
def test_repeated_words_leave_the_order_that_the_go_library_leaves(items: list[Any]) -> None:
    assert [repr(each) for each in patches_strategic._distinct(items)] == [repr(each) for each in _one_by_one(items)]


def _one_by_one(items: list[Any]) -> list[Any]:
    """As the library does it: a hole is filled from the end."""
    items, at = list(items), 0
    while at < len(items) - 1:
        other = at + 1
        while other < len(items):
            if type(items[at]) is type(items[other]) and items[at] == items[other]:
                last = items.pop()
                if other < len(items):
                    items[other] = last
            else:
                other += 1
        at += 1
    return items
