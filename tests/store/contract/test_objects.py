"""What every object has, and the words for what cannot be."""

import asyncio

import pytest

from headrace.api import kinds
from headrace.store.protocol import AlreadyExists, BadRequest, Conflict, Invalid, NotFound, Store
from tests.store.contract.samples import config_map, deployment, pod


async def test_a_new_object_has_an_identity_a_version_and_a_time(store: Store, namespace: str) -> None:
    made = await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    meta = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    assert (meta["name"], meta["namespace"]) == ("a", namespace)
    assert meta["uid"]
    assert meta["resourceVersion"]
    assert meta["creationTimestamp"].endswith("Z")
    assert await store.get(kinds.CONFIG_MAP, "a", namespace) == made


async def test_what_is_not_there_is_not_found_in_kubernetes_words(store: Store, namespace: str) -> None:
    with pytest.raises(NotFound, match=r'^pods "x" not found$'):
        await store.get(kinds.POD, "x", namespace)
    with pytest.raises(NotFound, match=r'^deployments\.apps "x" not found$'):
        await store.delete(kinds.DEPLOYMENT, "x", namespace)
    with pytest.raises(NotFound, match=r'^configmaps "x" not found$'):
        await store.patch(kinds.CONFIG_MAP, "x", namespace, fields={"data": {}})


async def test_a_name_is_given_once(store: Store, namespace: str) -> None:
    await store.create(kinds.POD, pod("x"), namespace)
    with pytest.raises(AlreadyExists, match=r'^pods "x" already exists$'):
        await store.create(kinds.POD, pod("x"), namespace)


async def test_a_generated_name_starts_as_asked_and_is_another_each_time(store: Store, namespace: str) -> None:
    named = {"metadata": {"generateName": "job-"}, "data": {}}
    made = [await store.create(kinds.CONFIG_MAP, named, namespace) for _ in range(5)]
    names = {each["metadata"]["name"] for each in made}
    assert len(names) == 5
    assert all(name.startswith("job-") and len(name) == len("job-") + 5 for name in names)


async def test_an_object_without_a_name_is_invalid(store: Store, namespace: str) -> None:
    words = r'^ConfigMap "" is invalid: metadata\.name: Required value: name or generateName is required$'
    with pytest.raises(Invalid, match=words):
        await store.create(kinds.CONFIG_MAP, {"metadata": {}, "data": {}}, namespace)


async def test_a_namespace_must_exist(store: Store) -> None:
    with pytest.raises(NotFound, match=r'^namespaces "nowhere" not found$'):
        await store.create(kinds.CONFIG_MAP, config_map("a"), "nowhere")


async def test_an_object_says_no_other_namespace_than_the_request(store: Store, namespace: str) -> None:
    with pytest.raises(BadRequest, match="the namespace of the provided object does not match"):
        await store.create(kinds.CONFIG_MAP, config_map("a", namespace="other"), namespace)


async def test_an_unknown_field_is_refused(store: Store, namespace: str) -> None:
    wrong = pod("x")
    wrong["spec"]["containers"][0]["imagePolicy"] = "Always"
    words = (
        r'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        r'unknown field "spec\.containers\[0\]\.imagePolicy"'
    )
    with pytest.raises(BadRequest, match=words):
        await store.create(kinds.POD, wrong, namespace)


async def test_a_wrong_type_is_refused(store: Store, namespace: str) -> None:
    wrong = {"metadata": {"name": "x"}, "spec": {"containers": "none"}}
    words = r"json: cannot unmarshal string into Go struct field PodSpec\.spec\.containers of type \[\]v1\.Container"
    with pytest.raises(BadRequest, match=words):
        await store.create(kinds.POD, wrong, namespace)


async def test_all_wrong_fields_are_named(store: Store, namespace: str) -> None:
    wrong = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "A"}]}}
    with pytest.raises(Invalid) as refused:
        await store.create(kinds.POD, wrong, namespace)
    fields = {cause.field: cause.reason for cause in refused.value.causes}
    assert fields == {
        "spec.containers[0].name": "FieldValueInvalid",
        "spec.containers[0].image": "FieldValueRequired",
    }


async def test_a_patch_at_a_stale_version_conflicts(store: Store, namespace: str) -> None:
    first = await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"data": {"key": "other"}})
    words = (
        r'^Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        r"please apply your changes to the latest version and try again$"
    )
    with pytest.raises(Conflict, match=words):
        await store.patch(
            kinds.CONFIG_MAP,
            "a",
            namespace,
            fields={"data": {"key": "late"}},
            version=first["metadata"]["resourceVersion"],
        )


async def test_a_version_in_the_patch_is_a_precondition_too(store: Store, namespace: str) -> None:
    first = await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"data": {"key": "other"}})
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"key": "late"}}
    with pytest.raises(Conflict):
        await store.patch(kinds.CONFIG_MAP, "a", namespace, fields=stale)


async def test_patches_without_a_version_all_take_effect(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    writers = 20
    await asyncio.gather(
        *(
            store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"data": {f"key-{number}": "set"}})
            for number in range(writers)
        )
    )
    data = (await store.get(kinds.CONFIG_MAP, "a", namespace))["data"]
    assert set(data) == {"key", *(f"key-{number}" for number in range(writers))}


async def test_a_change_of_nothing_is_no_change(store: Store, namespace: str) -> None:
    made = await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    same = await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"data": {"key": "value"}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_the_generation_counts_changes_of_the_spec_alone(store: Store, namespace: str) -> None:
    made = await store.create(kinds.DEPLOYMENT, deployment("a"), namespace)
    assert made["metadata"]["generation"] == 1
    labelled = await store.patch(kinds.DEPLOYMENT, "a", namespace, fields={"metadata": {"labels": {"tier": "web"}}})
    assert labelled["metadata"]["generation"] == 1
    scaled = await store.patch(kinds.DEPLOYMENT, "a", namespace, fields={"spec": {"replicas": 3}})
    assert scaled["metadata"]["generation"] == 2
    seen = await store.patch(
        kinds.DEPLOYMENT, "a", namespace, fields={"status": {"observedGeneration": 2}}, subresource="status"
    )
    assert (seen["metadata"]["generation"], seen["status"]["observedGeneration"]) == (2, 2)


async def test_what_no_update_decides_stays(store: Store, namespace: str) -> None:
    made = await store.create(kinds.DEPLOYMENT, deployment("a"), namespace)
    fields = {
        "metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 77},
        "status": {"replicas": 5},
    }
    changed = await store.patch(kinds.DEPLOYMENT, "a", namespace, fields=fields)
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert changed["metadata"]["generation"] == 1
    assert "replicas" not in (changed.get("status") or {})


async def test_a_status_update_decides_nothing_else(store: Store, namespace: str) -> None:
    await store.create(kinds.DEPLOYMENT, deployment("a", replicas=1), namespace)
    fields = {"spec": {"replicas": 9}, "status": {"replicas": 1}}
    changed = await store.patch(kinds.DEPLOYMENT, "a", namespace, fields=fields, subresource="status")
    assert (changed["spec"]["replicas"], changed["status"]["replicas"]) == (1, 1)


async def test_another_uid_is_another_object(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    with pytest.raises(Invalid, match=r'metadata\.uid: Invalid value: "another": field is immutable'):
        await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"metadata": {"uid": "another"}})


async def test_a_name_cannot_change(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    with pytest.raises((Invalid, BadRequest)):
        await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"metadata": {"name": "b"}})


async def test_a_dry_run_shows_the_outcome_and_leaves_nothing(store: Store, namespace: str) -> None:
    shown = await store.create(kinds.CONFIG_MAP, config_map("a"), namespace, dry_run=True)
    assert shown["metadata"]["uid"]
    with pytest.raises(NotFound):
        await store.get(kinds.CONFIG_MAP, "a", namespace)
    made = await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    shown = await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"data": {"key": "new"}}, dry_run=True)
    assert shown["data"] == {"key": "new"}
    assert await store.get(kinds.CONFIG_MAP, "a", namespace) == made


async def test_a_dry_run_is_refused_where_the_write_would_be(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    with pytest.raises(AlreadyExists):
        await store.create(kinds.CONFIG_MAP, config_map("a"), namespace, dry_run=True)
    with pytest.raises(Invalid):
        await store.create(kinds.POD, {"metadata": {"name": "x"}, "spec": {}}, namespace, dry_run=True)
