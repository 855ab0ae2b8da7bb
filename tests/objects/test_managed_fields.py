"""Who owns which field: the entries that kube-apiserver would write, and laws of the sets below them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api import kinds
from headrace.objects.field_sets import FieldSet, difference, union_of_roots
from headrace.objects.local import Caller, LocalStore

MANAGER = {manager: Caller(user="system:admin", field_manager=manager) for manager in ("one", "two", "three")}


def owned(obj: dict[str, Any]) -> dict[str, Any]:
    return {
        "/".join(filter(None, (entry["manager"], entry.get("subresource", "")))): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", ())
    }


def deployment() -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "ports": [{"containerPort": 80}]}
    return {
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


async def test_who_creates_owns_what_was_said_and_what_was_filled_in(store: LocalStore) -> None:
    made = await store.acting_as(MANAGER["one"]).create(kinds.DEPLOYMENT, deployment(), "default")
    container = {
        ".": {},
        "f:image": {},
        "f:imagePullPolicy": {},
        "f:name": {},
        "f:ports": {
            ".": {},
            'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}},
        },
        "f:resources": {},
        "f:terminationMessagePath": {},
        "f:terminationMessagePolicy": {},
    }
    assert owned(made) == {
        "one": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:progressDeadlineSeconds": {},
                "f:replicas": {},
                "f:revisionHistoryLimit": {},
                "f:selector": {},
                "f:strategy": {
                    "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
                    "f:type": {},
                },
                "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                    "f:spec": {
                        "f:containers": {'k:{"name":"main"}': container},
                        "f:dnsPolicy": {},
                        "f:restartPolicy": {},
                        "f:schedulerName": {},
                        "f:securityContext": {},
                        "f:terminationGracePeriodSeconds": {},
                    },
                },
            },
        }
    }


async def test_a_field_goes_to_who_changed_it_last(store: LocalStore) -> None:
    data = {"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
    await store.acting_as(MANAGER["one"]).create(kinds.CONFIG_MAP, data, "default")
    changed = await store.acting_as(MANAGER["two"]).patch(
        kinds.CONFIG_MAP, "a", "default", fields={"data": {"y": "2", "z": "2"}}
    )
    assert owned(changed) == {
        "one": {"f:data": {".": {}, "f:x": {}}},
        "two": {"f:data": {"f:y": {}, "f:z": {}}},
    }


async def test_what_is_removed_is_nobodys(store: LocalStore) -> None:
    data = {"metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
    await store.acting_as(MANAGER["one"]).create(kinds.CONFIG_MAP, data, "default")
    changed = await store.acting_as(MANAGER["two"]).patch(
        kinds.CONFIG_MAP, "a", "default", fields={"data": {"y": None}}
    )
    assert owned(changed) == {"one": {"f:data": {".": {}, "f:x": {}}}}


async def test_a_value_that_stays_stays_with_its_owner(store: LocalStore) -> None:
    data = {"metadata": {"name": "a"}, "data": {"x": "1"}}
    await store.acting_as(MANAGER["one"]).create(kinds.CONFIG_MAP, data, "default")
    changed = await store.acting_as(MANAGER["two"]).patch(
        kinds.CONFIG_MAP, "a", "default", fields={"data": {"x": "1", "y": "2"}}
    )
    assert owned(changed) == {"one": {"f:data": {".": {}, "f:x": {}}}, "two": {"f:data": {"f:y": {}}}}


async def test_a_subresource_is_an_entry_of_its_own(store: LocalStore) -> None:
    await store.acting_as(MANAGER["one"]).create(kinds.DEPLOYMENT, deployment(), "default")
    changed = await store.acting_as(MANAGER["one"]).patch(
        kinds.DEPLOYMENT, "web", "default", fields={"status": {"replicas": 1}}, subresource="status"
    )
    assert owned(changed)["one/status"] == {"f:status": {"f:replicas": {}}}


async def test_entries_do_not_grow_without_end(store: LocalStore) -> None:
    await store.create(kinds.CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"x": "1"}}, "default")
    for number in range(30):
        caller = Caller(user="system:admin", field_manager=f"manager-{number}")
        await store.acting_as(caller).patch(kinds.CONFIG_MAP, "a", "default", fields={"data": {f"key-{number}": "1"}})
    entries = (await store.get(kinds.CONFIG_MAP, "a", "default"))["metadata"]["managedFields"]
    assert len(entries) == 10
    assert {"ancient-changes", "manager-29"} <= {entry["manager"] for entry in entries}
    keys = [key for entry in entries for key in entry["fieldsV1"]["f:data"] if key != "."]
    assert sorted(keys) == sorted(["f:x", *(f"f:key-{number}" for number in range(30))])


def members(fields: FieldSet, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = set()
    for key, below in fields.items():
        if key == ".":
            found.add(path)
        elif not below:
            found.add((*path, key))
        else:
            found |= members(below, (*path, key))
    return found


def built(paths: set[tuple[str, ...]]) -> FieldSet:
    fields: FieldSet = {}
    for path in paths:
        fields = union_of_roots(fields, _single(path))
    return fields


def _single(path: tuple[str, ...]) -> FieldSet:
    return {path[0]: _single(path[1:])} if path else {}


path_sets = st.sets(st.lists(st.sampled_from(["f:a", "f:b", "f:c"]), min_size=1, max_size=3).map(tuple), max_size=6)


@given(path_sets, path_sets)
def test_sets_of_fields_are_sets(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> None:
    assert members(built(one)) == one
    assert members(union_of_roots(built(one), built(other))) == one | other
    assert members(difference(built(one), built(other))) == one - other


@pytest.mark.parametrize("manager", ["two", "three"])
async def test_a_client_may_hand_its_fields_over(store: LocalStore, manager: str) -> None:
    """What kubectl does when it goes over to server-side apply."""
    made = await store.acting_as(MANAGER["one"]).create(
        kinds.CONFIG_MAP, {"metadata": {"name": "a"}, "data": {"x": "1"}}, "default"
    )
    entry = {**made["metadata"]["managedFields"][0], "manager": manager, "operation": "Apply"}
    operations = [{"op": "replace", "path": "/metadata/managedFields", "value": [entry]}]
    changed = await store.acting_as(MANAGER["one"]).patch_document(kinds.CONFIG_MAP, "a", "default", "json", operations)
    assert [(each["manager"], each["operation"]) for each in changed["metadata"]["managedFields"]] == [
        (manager, "Apply")
    ]
