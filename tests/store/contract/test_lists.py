"""Lists: selectors, pages of one snapshot, all namespaces."""

import pytest

from headrace.api import kinds
from headrace.store.protocol import BadRequest, Store
from tests.store.contract.samples import config_map, pod


async def fill(store: Store, namespace: str, count: int) -> list[str]:
    names = [f"item-{number:03}" for number in range(count)]
    for number, name in enumerate(names):
        labels = {"parity": "odd" if number % 2 else "even"} | ({"first": ""} if number == 0 else {})
        await store.create(kinds.CONFIG_MAP, config_map(name, labels=labels), namespace)
    return names


def names_of(items: list[dict]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


async def test_a_list_is_in_order_of_names(store: Store, namespace: str) -> None:
    names = await fill(store, namespace, 5)
    assert names_of((await store.list(kinds.CONFIG_MAP, namespace)).items) == names


async def test_pages_show_one_snapshot(store: Store, namespace: str) -> None:
    names = await fill(store, namespace, 7)
    page = await store.list(kinds.CONFIG_MAP, namespace, limit=3)
    assert (names_of(page.items), page.remaining) == (names[:3], 4)
    await store.delete(kinds.CONFIG_MAP, names[4], namespace)
    await store.create(kinds.CONFIG_MAP, config_map("item-0035"), namespace)
    seen = page.items
    while page.resume:
        page = await store.list(kinds.CONFIG_MAP, namespace, limit=3, resume=page.resume)
        seen = seen + page.items
    assert names_of(seen) == names


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("parity=even", [0, 2, 4]),
        ("parity==odd", [1, 3]),
        ("parity!=even", [1, 3]),
        ("parity in (odd, even)", [0, 1, 2, 3, 4]),
        ("parity notin (odd)", [0, 2, 4]),
        ("first", [0]),
        ("!first", [1, 2, 3, 4]),
        ("first=", [0]),
        ("parity=even,!first", [2, 4]),
        ("other", []),
    ],
)
async def test_labels_select(store: Store, namespace: str, selector: str, expected: list[int]) -> None:
    names = await fill(store, namespace, 5)
    found = await store.list(kinds.CONFIG_MAP, namespace, labels=selector)
    assert names_of(found.items) == [names[number] for number in expected]


async def test_pages_with_a_selector_miss_nothing_and_repeat_nothing(store: Store, namespace: str) -> None:
    names = await fill(store, namespace, 11)
    seen: list[str] = []
    resume = ""
    while True:
        page = await store.list(kinds.CONFIG_MAP, namespace, labels="parity=even", limit=2, resume=resume)
        assert len(page.items) <= 2
        seen += names_of(page.items)
        resume = page.resume
        if not resume:
            break
    assert seen == names[::2]


async def test_fields_select(store: Store, namespace: str) -> None:
    await store.create(kinds.POD, pod("a", nodeName="elsewhere"), namespace)
    await store.create(kinds.POD, pod("b"), namespace)
    assert names_of((await store.list(kinds.POD, namespace, fields="spec.nodeName=elsewhere")).items) == ["a"]
    assert names_of((await store.list(kinds.POD, namespace, fields="spec.nodeName!=elsewhere")).items) == ["b"]
    assert names_of((await store.list(kinds.POD, namespace, fields="metadata.name=b")).items) == ["b"]


async def test_a_field_that_cannot_be_selected_by_is_refused(store: Store, namespace: str) -> None:
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.hostname"):
        await store.list(kinds.POD, namespace, fields="spec.hostname=x")
    with pytest.raises(BadRequest, match=r'"data\.key" is not a known field selector'):
        await store.list(kinds.CONFIG_MAP, namespace, fields="data.key=x")


async def test_a_malformed_selector_is_refused(store: Store, namespace: str) -> None:
    with pytest.raises(BadRequest, match="unable to parse requirement"):
        await store.list(kinds.CONFIG_MAP, namespace, labels="a in b")


async def test_without_a_namespace_all_are_listed(store: Store, namespace: str) -> None:
    other = f"{namespace}-2"
    await store.create(kinds.NAMESPACE, {"metadata": {"name": other}})
    for where in (namespace, other):
        await store.create(kinds.CONFIG_MAP, config_map("same", labels={"of": namespace}), where)
    found = await store.list(kinds.CONFIG_MAP, labels=f"of={namespace}")
    # In no promised order: Kubernetes sorts by the path NAMESPACE/NAME, where `-` comes before `/`.
    assert {item["metadata"]["namespace"] for item in found.items} == {namespace, other}
    assert len(found.items) == 2
