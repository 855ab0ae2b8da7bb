"""The scale of custom objects, whose replicas may lie anywhere and whose schema may allow anything there."""

from typing import Any

import pytest

from headrace.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from headrace.objects.local import LocalStore
from headrace.store.protocol import Invalid

FARM = Kind("example.com", "v1", "Farm", "farms")
DEFINITION = {
    "metadata": {"name": "farms.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "farms", "kind": "Farm"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {
                    "scale": {"specReplicasPath": ".spec.mills.replicas", "statusReplicasPath": ".status.replicas"}
                },
            }
        ],
    },
}
THREE = {"spec": {"replicas": 3}}


@pytest.mark.parametrize("spec", [{}, {"mills": {}}, {"mills": {"replicas": 1}}], ids=str)
async def test_replicas_are_set_where_the_definition_says(store: LocalStore, spec: dict[str, Any]) -> None:
    await store.create(CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    await store.create(FARM, {"metadata": {"name": "a"}, "spec": spec}, "default")
    await store.patch(FARM, "a", "default", fields=THREE, subresource="scale")
    assert (await store.get(FARM, "a", "default"))["spec"] == {"mills": {"replicas": 3}}


@pytest.mark.parametrize("spec", [{"mills": "many"}, {"mills": None}, {"mills": [1]}, "many"], ids=str)
async def test_what_cannot_hold_replicas_is_told_by_its_name(store: LocalStore, spec: Any) -> None:
    await store.create(CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    await store.create(FARM, {"metadata": {"name": "a"}, "spec": spec}, "default")
    with pytest.raises(Invalid, match=r"spec(\.mills)?: Invalid value: .*must be an object, to hold the replicas"):
        await store.patch(FARM, "a", "default", fields=THREE, subresource="scale")
