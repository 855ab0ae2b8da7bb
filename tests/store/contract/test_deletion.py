"""How objects end: at once, after their finalizers, after their grace; and what a delete insists on."""

import pytest

from headrace.api import kinds
from headrace.store.protocol import Conflict, Deletion, Forbidden, Invalid, NotFound, Preconditions, Store
from tests.store.contract.samples import config_map, deployment, node, pod


async def gone(store: Store, kind: kinds.Kind, name: str, namespace: str) -> bool:
    try:
        await store.get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def test_a_plain_object_is_gone_at_once(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    await store.delete(kinds.CONFIG_MAP, "a", namespace)
    assert await gone(store, kinds.CONFIG_MAP, "a", namespace)


async def test_a_finalizer_holds_an_object_until_it_is_removed(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a", finalizers=["example.com/hold"]), namespace)
    await store.delete(kinds.CONFIG_MAP, "a", namespace)
    held = await store.get(kinds.CONFIG_MAP, "a", namespace)
    assert held["metadata"]["deletionTimestamp"]
    fields = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being deleted"):
        await store.patch(kinds.CONFIG_MAP, "a", namespace, fields=fields)
    await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"metadata": {"finalizers": None}})
    assert await gone(store, kinds.CONFIG_MAP, "a", namespace)


@pytest.mark.parametrize(("propagation", "finalizer"), [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")])
async def test_a_policy_for_dependents_holds_their_owner(
    store: Store, namespace: str, propagation: str, finalizer: str
) -> None:
    await store.create(kinds.DEPLOYMENT, deployment("a"), namespace)
    await store.delete(kinds.DEPLOYMENT, "a", namespace, Deletion(propagation=propagation))
    held = await store.get(kinds.DEPLOYMENT, "a", namespace)
    assert held["metadata"]["finalizers"] == [finalizer]
    assert held["metadata"]["deletionTimestamp"]


async def test_a_delete_of_another_uid_is_refused(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    with pytest.raises(Conflict, match=r"UID in the precondition|Precondition failed: UID"):
        await store.delete(kinds.CONFIG_MAP, "a", namespace, Deletion(Preconditions(uid="another")))


async def test_a_delete_at_a_stale_version_is_refused(store: Store, namespace: str) -> None:
    made = await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    await store.patch(kinds.CONFIG_MAP, "a", namespace, fields={"data": {"key": "new"}})
    stale = Preconditions(version=made["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        await store.delete(kinds.CONFIG_MAP, "a", namespace, Deletion(stale))


async def test_a_dry_run_deletes_nothing(store: Store, namespace: str) -> None:
    await store.create(kinds.CONFIG_MAP, config_map("a"), namespace)
    await store.delete(kinds.CONFIG_MAP, "a", namespace, Deletion(dry_run=True))
    assert not await gone(store, kinds.CONFIG_MAP, "a", namespace)


async def test_a_pod_that_never_ran_is_gone_at_once(store: Store, namespace: str) -> None:
    await store.create(kinds.POD, pod("a"), namespace)
    await store.delete(kinds.POD, "a", namespace)
    assert await gone(store, kinds.POD, "a", namespace)


async def test_a_bound_pod_has_its_grace_and_it_can_only_be_shortened(store: Store, namespace: str) -> None:
    await node(store, f"{namespace}-node")
    await store.create(kinds.POD, pod("a", nodeName=f"{namespace}-node"), namespace)
    await store.delete(kinds.POD, "a", namespace)
    ending = await store.get(kinds.POD, "a", namespace)
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 30
    await store.delete(kinds.POD, "a", namespace, Deletion(grace_seconds=60))
    assert (await store.get(kinds.POD, "a", namespace))["metadata"]["deletionGracePeriodSeconds"] == 30
    await store.delete(kinds.POD, "a", namespace, Deletion(grace_seconds=5))
    assert (await store.get(kinds.POD, "a", namespace))["metadata"]["deletionGracePeriodSeconds"] == 5
    await store.delete(kinds.POD, "a", namespace, Deletion(grace_seconds=0))
    assert await gone(store, kinds.POD, "a", namespace)


async def test_a_pod_that_ended_is_gone_at_once(store: Store, namespace: str) -> None:
    await node(store, f"{namespace}-node")
    await store.create(kinds.POD, pod("a", nodeName=f"{namespace}-node"), namespace)
    await store.patch(kinds.POD, "a", namespace, fields={"status": {"phase": "Succeeded"}}, subresource="status")
    await store.delete(kinds.POD, "a", namespace)
    assert await gone(store, kinds.POD, "a", namespace)


async def test_a_namespace_ends_before_it_goes_and_takes_nothing_new(store: Store, namespace: str) -> None:
    ending = await store.delete(kinds.NAMESPACE, namespace)
    assert ending["status"]["phase"] == "Terminating"
    words = f"unable to create new content in namespace {namespace} because it is being terminated"
    with pytest.raises(Forbidden, match=words):
        await store.create(kinds.CONFIG_MAP, config_map("late"), namespace)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_never_end(store: Store, name: str) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await store.delete(kinds.NAMESPACE, name)
