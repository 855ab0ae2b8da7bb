"""The controllers on the real store, in virtual time: the world before, some time, the world after."""

import asyncio

import pytest
from structlog.testing import capture_logs

from headrace.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, EVENT, LEASE, NAMESPACE, NODE, POD, SECRET, Kind
from headrace.api.objects import name_of, uid_of
from headrace.api.times import to_micro_time, to_time
from headrace.objects.local import Caller
from headrace.runtime.clock import LoopClock
from headrace.store.protocol import Deletion, Forbidden, NotFound
from headrace.workloads.events import EventTTL
from headrace.workloads.garbage import GarbageCollector
from headrace.workloads.namespaces import NamespaceDeletion
from headrace.workloads.nodes import NodeLifecycle
from headrace.workloads.pods import PodCollector
from tests.runtime.home import EPOCH, controllers, open_store, running, wall

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

KINDS = (NAMESPACE, NODE, POD, CONFIG_MAP, SECRET)


async def a_store():
    store = await open_store()
    for name in ("default", "kube-node-lease"):
        await store.create(NAMESPACE, {"metadata": {"name": name}})
    return store


async def config_map(store, name, *owners, blocks=False, namespace="default"):
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": name_of(owner),
            "uid": uid_of(owner),
            "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]
    meta = {"name": name, "ownerReferences": references} if references else {"name": name}
    return await store.create(CONFIG_MAP, {"metadata": meta}, namespace)


async def names(store, kind, namespace="default"):
    return sorted(name_of(each) for each in (await store.list(kind, namespace)).items)


def collecting(store):
    manager = controllers(store)
    manager.add(GarbageCollector(manager.informers, store, KINDS))
    return manager


@pytest.mark.parametrize(
    ("propagation", "left"),
    [
        pytest.param("Background", ["other"], id="in the background dependents follow"),
        pytest.param("Foreground", ["other"], id="in the foreground dependents go first"),
        pytest.param("Orphan", ["child", "grandchild", "other"], id="orphans stay"),
    ],
)
async def test_what_becomes_of_dependents(propagation, left):
    store = await a_store()
    owner = await config_map(store, "owner")
    child = await config_map(store, "child", owner, blocks=True)
    await config_map(store, "grandchild", child, blocks=True)
    await config_map(store, "other")
    async with running(collecting(store)):
        await asyncio.sleep(1)
        await store.delete(CONFIG_MAP, "owner", "default", Deletion(propagation=propagation))
        await asyncio.sleep(30)
    assert await names(store, CONFIG_MAP) == left
    if propagation == "Orphan":
        assert "ownerReferences" not in (await store.get(CONFIG_MAP, "child", "default"))["metadata"]


async def test_an_owner_in_the_foreground_waits_for_who_blocks_it():
    store = await a_store()
    owner = await config_map(store, "owner")
    child = {**await config_map(store, "child", owner, blocks=True)}
    await store.patch(CONFIG_MAP, "child", "default", fields={"metadata": {"finalizers": ["example.com/busy"]}})
    async with running(collecting(store)):
        await store.delete(CONFIG_MAP, "owner", "default", Deletion(propagation="Foreground"))
        await asyncio.sleep(30)
        assert await names(store, CONFIG_MAP) == ["child", "owner"]
        await store.patch(CONFIG_MAP, name_of(child), "default", fields={"metadata": {"finalizers": None}})
        await asyncio.sleep(30)
    assert await names(store, CONFIG_MAP) == []


async def test_with_one_owner_of_two_it_stays_and_forgets_the_other():
    store = await a_store()
    one, two = await config_map(store, "one"), await config_map(store, "two")
    await config_map(store, "child", one, two)
    async with running(collecting(store)):
        await store.delete(CONFIG_MAP, "one", "default")
        await asyncio.sleep(30)
    (reference,) = (await store.get(CONFIG_MAP, "child", "default"))["metadata"]["ownerReferences"]
    assert reference["name"] == "two"


async def test_an_owner_of_the_same_name_is_another():
    """What was owned by an object that went while nobody watched is not adopted by its successor."""
    store = await a_store()
    owner = await config_map(store, "owner")
    await config_map(store, "child", owner)
    await store.delete(CONFIG_MAP, "owner", "default")
    await config_map(store, "owner")
    async with running(collecting(store)):
        await asyncio.sleep(30)
    assert await names(store, CONFIG_MAP) == ["owner"]


WIDGET = Kind("example.com", "v1", "Widget", "widgets")


async def define_widgets(store):
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [version],
    }
    await store.create(CUSTOM_RESOURCE_DEFINITION, {"metadata": {"name": "widgets.example.com"}, "spec": spec})


async def widget(store, name, namespace="default"):
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}
    return await store.create(WIDGET, obj, namespace)


def collecting_custom_kinds_too(store):
    manager = controllers(store)
    collector = GarbageCollector(manager.informers, store, KINDS)
    controller = manager.add(collector)
    collector.follow(lambda: (each.kind for each in store.registry.at_rest() if each.custom), controller.watch)
    return manager, collector, controller


async def test_a_custom_kind_that_comes_later_owns_and_goes_like_any_other():
    store = await a_store()
    manager, _, _ = collecting_custom_kinds_too(store)
    async with running(manager):
        await asyncio.sleep(1)
        await define_widgets(store)
        await asyncio.sleep(1)
        owner = await widget(store, "owner")
        reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": uid_of(owner)}
        meta = {"name": "child", "ownerReferences": [reference]}
        await store.create(CONFIG_MAP, {"metadata": meta}, "default")
        await asyncio.sleep(10)
        assert await names(store, CONFIG_MAP) == ["child"]
        await store.delete(WIDGET, "owner", "default")
        await asyncio.sleep(10)
        assert await names(store, CONFIG_MAP) == []
        await store.delete(CUSTOM_RESOURCE_DEFINITION, "widgets.example.com")
        await asyncio.sleep(60)
        assert not any(each.kind == WIDGET for each in manager.informers._informers.values())


async def test_a_kind_that_comes_while_dependents_are_listed_is_no_failure():
    store = await a_store()
    manager, collector, _ = collecting_custom_kinds_too(store)
    began = []

    class Slow:
        """The store, in which a kind is defined while the collector reads its first list."""

        def __getattr__(self, name):
            return getattr(store, name)

        async def list(self, *arguments, **options):
            if not began:
                began.append(True)
                await define_widgets(store)
                await asyncio.sleep(1)
            return await store.list(*arguments, **options)

    collector._store = Slow()
    with capture_logs() as logs:
        async with running(manager):
            owner = await config_map(store, "owner")
            await config_map(store, "child", owner, blocks=True)
            await store.delete(CONFIG_MAP, "owner", "default", Deletion(propagation="Orphan"))
            await asyncio.sleep(30)
    assert began
    assert await names(store, CONFIG_MAP) == ["child"]
    assert not [each for each in logs if each["log_level"] == "error"]


async def test_of_a_kind_that_was_deleted_and_defined_again_own_writes_are_seen_at_once():
    store = await a_store()
    manager, _, controller = collecting_custom_kinds_too(store)
    async with running(manager):
        for _ in range(2):
            await define_widgets(store)
            await asyncio.sleep(1)
            owner = await widget(store, "owner")
            await store.delete(WIDGET, "owner", "default", Deletion(propagation="Orphan"))
            began = asyncio.get_running_loop().time()
            while controller._unseen or await names(store, WIDGET):
                assert asyncio.get_running_loop().time() < began + 10, "a write of its own is waited for"
                await asyncio.sleep(0.1)
            assert owner
            await store.delete(CUSTOM_RESOURCE_DEFINITION, "widgets.example.com")
            await asyncio.sleep(30)


async def test_custom_objects_go_with_their_namespace():
    store = await a_store()
    await store.create(NAMESPACE, {"metadata": {"name": "team"}})
    manager = controllers(store)
    kinds = lambda: (each.kind for each in store.registry.at_rest())  # noqa: E731
    manager.add(NamespaceDeletion(manager.informers, store, kinds, (CONFIG_MAP,)))
    async with running(manager):
        await define_widgets(store)
        await widget(store, "one", "team")
        await store.delete(NAMESPACE, "team")
        await asyncio.sleep(30)
        assert await names(store, WIDGET, "team") == []
    with pytest.raises(NotFound):
        await store.get(NAMESPACE, "team")


async def test_a_namespace_goes_with_all_that_is_in_it():
    store = await a_store()
    await store.create(NAMESPACE, {"metadata": {"name": "team"}})
    await config_map(store, "a", namespace="team")
    await store.create(SECRET, {"metadata": {"name": "s"}}, "team")
    manager = controllers(store)
    manager.add(NamespaceDeletion(manager.informers, store, lambda: KINDS, (POD, CONFIG_MAP)))
    async with running(manager):
        await store.delete(NAMESPACE, "team")
        with pytest.raises(Forbidden):
            await config_map(store, "late", namespace="team")
        await asyncio.sleep(30)
    with pytest.raises(NotFound):
        await store.get(NAMESPACE, "team")
    assert await names(store, CONFIG_MAP, "team") == []
    assert await names(store, NAMESPACE, "") == ["default", "kube-node-lease"]


async def test_a_namespace_says_what_it_waits_for():
    store = await a_store()
    await store.create(NAMESPACE, {"metadata": {"name": "team"}})
    await store.create(CONFIG_MAP, {"metadata": {"name": "a", "finalizers": ["example.com/busy"]}}, "team")
    manager = controllers(store)
    manager.add(NamespaceDeletion(manager.informers, store, lambda: KINDS, (POD, CONFIG_MAP)))
    async with running(manager):
        await store.delete(NAMESPACE, "team")
        await asyncio.sleep(30)
        conditions = (await store.get(NAMESPACE, "team"))["status"]["conditions"]
        assert [each["reason"] for each in conditions] == ["SomeResourcesRemain", "SomeFinalizersRemain"]
        await store.patch(CONFIG_MAP, "a", "team", fields={"metadata": {"finalizers": None}})
        await asyncio.sleep(30)
    with pytest.raises(NotFound):
        await store.get(NAMESPACE, "team")


async def test_what_does_not_go_hides_nothing_of_its_namespace(monkeypatch):
    monkeypatch.setattr("headrace.workloads.namespaces.LIST_PAGE", 2)
    store = await a_store()
    await store.create(NAMESPACE, {"metadata": {"name": "team"}})
    for number in range(3):
        kept = {"metadata": {"name": f"a{number}", "finalizers": ["example.com/busy"]}}
        await store.create(CONFIG_MAP, kept, "team")
    await config_map(store, "z", namespace="team")
    manager = controllers(store)
    manager.add(NamespaceDeletion(manager.informers, store, lambda: KINDS, (POD, CONFIG_MAP)))
    async with running(manager):
        await store.delete(NAMESPACE, "team")
        await asyncio.sleep(30)
    assert await names(store, CONFIG_MAP, "team") == ["a0", "a1", "a2"]


@pytest.mark.parametrize("blocks", [False, None])
async def test_an_owner_in_the_foreground_goes_when_who_blocked_it_does_so_no_more(blocks):
    store = await a_store()
    owner = await config_map(store, "owner")
    child = await config_map(store, "child", owner, blocks=True)
    await store.patch(CONFIG_MAP, "child", "default", fields={"metadata": {"finalizers": ["example.com/busy"]}})
    async with running(collecting(store)):
        await store.delete(CONFIG_MAP, "owner", "default", Deletion(propagation="Foreground"))
        await asyncio.sleep(30)
        assert await names(store, CONFIG_MAP) == ["child", "owner"]
        [reference] = child["metadata"]["ownerReferences"]
        references = [{**reference, "blockOwnerDeletion": blocks}]
        await store.patch(CONFIG_MAP, "child", "default", fields={"metadata": {"ownerReferences": references}})
        await asyncio.sleep(30)
        assert await names(store, CONFIG_MAP) == ["child"]


async def test_owners_of_each_other_go_in_the_foreground_too():
    store = await a_store()
    one = await config_map(store, "one")
    other = await config_map(store, "other", one, blocks=True)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": uid_of(other)}
    references = {"ownerReferences": [{**reference, "blockOwnerDeletion": True}]}
    await store.patch(CONFIG_MAP, "one", "default", fields={"metadata": references})
    async with running(collecting(store)):
        await store.delete(CONFIG_MAP, "one", "default", Deletion(propagation="Foreground"))
        await asyncio.sleep(60)
        assert await names(store, CONFIG_MAP) == []


async def a_node(store, name="node-a"):
    await store.create(NODE, {"metadata": {"name": name}})
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = [
        {"type": "Ready", "status": "True", "reason": "AgentReady", "message": "", "lastTransitionTime": to_time(EPOCH)}
    ]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    await store.patch(NODE, name, fields={"status": status}, subresource="status", strategic=True)
    await store.create(LEASE, {"metadata": {"name": name}, "spec": {"holderIdentity": name}}, "kube-node-lease")


async def renew(store, name="node-a"):
    fields = {"spec": {"renewTime": to_micro_time(wall())}}
    await store.patch(LEASE, name, "kube-node-lease", fields=fields)


async def a_pod(store, name="web", node="node-a", **spec):
    spec = {"nodeName": node, "containers": [{"name": "app", "image": "app"}], **spec}
    return await store.create(POD, {"metadata": {"name": name}, "spec": spec}, "default")


def watching_nodes(store):
    manager = controllers(store)
    manager.add(NodeLifecycle(manager.informers, LoopClock(wall)))
    return manager


async def state_of(store, name="node-a"):
    node = await store.get(NODE, name)
    (ready,) = [each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready"]
    return ready, [each["key"] for each in node.get("spec", {}).get("taints", ())]


async def test_a_node_that_renews_its_lease_is_left_alone():
    store = await a_store()
    await a_node(store)
    async with running(watching_nodes(store)):
        for _ in range(60):
            await renew(store)
            await asyncio.sleep(10)
    assert await state_of(store) == ("True", [])


async def test_a_silent_node_is_unknown_after_forty_seconds_and_its_pods_leave_after_five_minutes():
    store = await a_store()
    await a_node(store)
    await a_pod(store, "web")
    forever = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}]
    await a_pod(store, "stays", tolerations=forever)
    async with running(watching_nodes(store)):
        await renew(store)
        await asyncio.sleep(39)
        assert await state_of(store) == ("True", [])
        await asyncio.sleep(3)
        assert await state_of(store) == ("Unknown", ["node.kubernetes.io/unreachable"] * 2)
        await asyncio.sleep(295)
        assert "deletionTimestamp" not in (await store.get(POD, "web", "default"))["metadata"]
        await asyncio.sleep(10)
        assert "deletionTimestamp" in (await store.get(POD, "web", "default"))["metadata"]
        assert "deletionTimestamp" not in (await store.get(POD, "stays", "default"))["metadata"]


async def test_a_node_that_was_replaced_unseen_is_given_its_time_to_be_heard_of():
    store = await a_store()
    manager = watching_nodes(store)
    lifecycle = NodeLifecycle(manager.informers, LoopClock(wall))
    async with running(manager):
        await a_node(store)
        await asyncio.sleep(30)
        await lifecycle.observe("node-a")
        await asyncio.sleep(30)
        before = await store.get(NODE, "node-a")
        after = {**before, "metadata": {**before["metadata"], "uid": "another"}}
        assert list(lifecycle.sources[0].keys(before, after)) == ["node-a"]
        seen = await lifecycle.observe("node-a")
    assert seen is not None
    assert seen.silent_seconds == 0


async def test_a_node_that_comes_back_is_freed_of_its_taints():
    store = await a_store()
    await a_node(store)
    async with running(watching_nodes(store)):
        await asyncio.sleep(60)
        assert (await state_of(store))[0] == "Unknown"
        await renew(store)
        ready = [{"type": "Ready", "status": "True", "reason": "AgentReady", "message": ""}]
        await store.patch(
            NODE, "node-a", fields={"status": {"conditions": ready}}, subresource="status", strategic=True
        )
        await asyncio.sleep(5)
        assert await state_of(store) == ("True", [])


async def test_pods_of_a_node_that_is_gone_are_removed():
    store = await a_store()
    await a_node(store)
    await a_pod(store)
    manager = controllers(store)
    manager.add(PodCollector(manager.informers, store, LoopClock(wall)))
    async with running(manager):
        await asyncio.sleep(30)
        await store.delete(NODE, "node-a")
        await asyncio.sleep(30)
        assert await names(store, POD) == ["web"]
        await asyncio.sleep(60)
    assert await names(store, POD) == []


async def test_events_go_an_hour_after_they_last_happened():
    store = await a_store()
    for number, age in enumerate((0, 3000)):
        event = {
            "metadata": {"name": f"e{number}"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
            "lastTimestamp": to_time(EPOCH - age),
        }
        await store.acting_as(Caller()).create(EVENT, event, "default")
    manager = controllers(store)
    manager.add(EventTTL(manager.informers, store))
    async with running(manager):
        await asyncio.sleep(1800)
        assert await names(store, EVENT) == ["e0"]
        await asyncio.sleep(2000)
    assert await names(store, EVENT) == []
