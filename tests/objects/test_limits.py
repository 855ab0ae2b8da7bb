"""What is too large is refused where it is written, by whom it may."""

import pytest

from headrace.api import kinds
from headrace.objects.local import LocalStore
from headrace.objects.refusals import TooLarge
from headrace.store.protocol import Invalid


async def test_an_object_has_a_size_that_it_cannot_exceed(store: LocalStore) -> None:
    annotations = {f"example.com/note-{number}": "x" * 100_000 for number in range(2)}
    data = {f"key-{number}": "x" * 100_000 for number in range(8)}
    obj = {"metadata": {"name": "a", "annotations": annotations}, "data": data}
    await store.create(kinds.CONFIG_MAP, obj, "default")
    container = {"name": "main", "image": "app:1", "env": [{"name": "LONG", "value": "x" * 1_500_000}]}
    with pytest.raises(Invalid, match="may not be more than 1500000 bytes"):
        await store.create(kinds.POD, {"metadata": {"name": "a"}, "spec": {"containers": [container]}}, "default")


async def test_a_patch_that_grows_without_end_is_cut_off(store: LocalStore) -> None:
    data = {"x": "x" * 1000}
    await store.create(kinds.CONFIG_MAP, {"metadata": {"name": "a"}, "data": data}, "default")
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(40)]
    with pytest.raises(TooLarge) as refused:
        await store.patch_document(kinds.CONFIG_MAP, "a", "default", "json", doubling)
    assert refused.value.code == 413
    assert (await store.get(kinds.CONFIG_MAP, "a", "default"))["data"] == data
