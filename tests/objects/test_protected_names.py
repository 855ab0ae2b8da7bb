"""Definitions that would take the place of built-in kinds, or of groups that are not theirs to extend."""

from typing import Any

import pytest

from headrace.api.kinds import CUSTOM_RESOURCE_DEFINITION, LEASE, RESOURCE_CLAIM, Kind
from headrace.objects.local import LocalStore
from headrace.store.protocol import Invalid

APPROVAL = "api-approved.kubernetes.io"


def definition(kind: Kind, approval: str | None = None) -> dict[str, Any]:
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "metadata": {"name": kind.resource, "annotations": {} if approval is None else {APPROVAL: approval}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "kind": kind.kind},
            "versions": [version],
        },
    }


@pytest.mark.parametrize("version", ["v1", "v9"])
@pytest.mark.parametrize("kind", [LEASE, RESOURCE_CLAIM], ids=str)
async def test_a_built_in_kind_is_not_defined_again(store: LocalStore, kind: Kind, version: str) -> None:
    """Deleting such a definition deleted all objects of the built-in kind, and the kind was gone until a restart."""
    again = Kind(kind.group, version, kind.kind, kind.plural)
    with pytest.raises(Invalid, match="is built into this server"):
        await store.create(CUSTOM_RESOURCE_DEFINITION, definition(again, "unapproved, for a test"))
    served = store.registry.of(kind)
    assert served is not None
    assert not served.custom


SNAPSHOT = Kind("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots")


@pytest.mark.parametrize(
    "approval", ["unapproved, experimental", "https://github.com/kubernetes/kubernetes/pull/78458"]
)
async def test_a_protected_group_takes_what_is_approved_or_says_that_it_is_not(
    store: LocalStore, approval: str
) -> None:
    await store.create(CUSTOM_RESOURCE_DEFINITION, definition(SNAPSHOT, approval))
    changed = {"spec": {"names": {"shortNames": ["vs"]}}}
    await store.patch(CUSTOM_RESOURCE_DEFINITION, SNAPSHOT.resource, fields=changed)
    with pytest.raises(Invalid, match="Required value: protected groups must have approval annotation"):
        await store.patch(
            CUSTOM_RESOURCE_DEFINITION, SNAPSHOT.resource, fields={"metadata": {"annotations": {APPROVAL: None}}}
        )


@pytest.mark.parametrize(
    ("approval", "words"),
    [
        pytest.param(None, "Required value: protected groups must have approval annotation", id="nothing"),
        pytest.param("yes", "with either a URL or a reason starting with", id="a word"),
        pytest.param("http://[", "with either a URL or a reason starting with", id="half a URL"),
    ],
)
async def test_a_protected_group_takes_nothing_else(store: LocalStore, approval: str | None, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        await store.create(CUSTOM_RESOURCE_DEFINITION, definition(SNAPSHOT, approval))
