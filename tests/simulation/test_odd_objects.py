"""Odd objects of every kind, beside which all controllers go on working: accepted ones, and ones that are damaged.

Damage stands for what an older version stored, or what a real cluster has: it is put into what the controllers read.
"""

import asyncio
import copy
import dataclasses
import random
from contextlib import suppress

import pytest
import structlog
from prometheus_client import CollectorRegistry

from headrace.api import kinds
from headrace.api.amounts import read
from headrace.api.objects import name_of, uid_of
from headrace.api.times import to_micro_time, to_time
from headrace.metrics.memory import MemoryMetrics
from headrace.resize.monitoring import Monitoring
from headrace.resize.scraper import targets
from headrace.runtime.clock import LoopClock
from headrace.serve.controllers import embedded_controllers
from headrace.store.protocol import Deletion, NotFound, StoreError
from tests.objects.manifests import served_kind
from tests.objects.referee.mutations import mutated
from tests.objects.referee.samples import SAMPLES
from tests.runtime.home import open_store, running, wall

pytestmark = [pytest.mark.slow, pytest.mark.looptime]

ODD_TEXTS = ("", "ünï\u0000", "9" * 64, "1e30", "-1", "0.000000001", "[", '{"a": {"cpu": "x"}}', "nan", "\u202e")
ANNOTATIONS = (
    "headrace.dev/strays",
    "headrace.dev/confirmed-revision",
    "headrace.dev/enforcement",
    "headrace.dev/adopted",
    "prometheus.io/scrape",
    "prometheus.io/port",
    "prometheus.io/path",
)
GARBAGE = (None, True, -1, 1e308, "", "x", [], {}, [None], ["x"], {"x": None}, {"name": 7}, "ü\ud800")
QUANTITIES = ("0", "1n", "1E", "1e30", "-1", "9223372036854775807", "0.1m")
ALWAYS = (
    "a Pod is placed",
    "a resize is admitted",
    "a dependent is collected",
    "a namespace ends",
    "an old Event goes",
)
"""Done even where types are wrong, which no version has stored: what is judged with such an object may wait."""
WHOLE = ("ResourceSlice", "DeviceTaintRule")
"""As in Kubernetes nothing is given while a slice's node selector cannot be read; an empty rule taints all devices."""
IDENTITY = ("name", "namespace", "uid", "resourceVersion")


def own_samples():
    """Of the kinds that the samples lack."""
    policy = {
        "selector": {"matchLabels": {"app": "web"}},
        "max": {"cpu": "4", "memory": "1Gi"},
        "quota": {"cpu": "8"},
        "triggers": [
            {"metric": "cpu", "up": {"above": "80%"}, "down": {"below": "30%"}},
            {"metric": "latency", "up": {"above": "300"}},
        ],
    }
    action = {"workload": "web/app", "target": {"cpu": "2"}, "current": {"cpu": "1"}, "priority": 7}
    reservation = {"node": "leaving", "resources": {"cpu": "1m"}, "beneficiaries": {"pods": ["web"]}}
    made = (
        (kinds.RESIZE_POLICY, policy),
        (kinds.RESOURCE_SCALING_ACTION, action),
        (kinds.CAPACITY_RESERVATION, reservation | {"expirationTime": "2027-06-01T00:00:00Z"}),
    )
    for kind, spec in made:
        meta = {"name": kind.plural, "namespace": "default", "labels": {"app": "web"}}
        yield {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def odd_status(chance, kind):
    conditions = [
        {"type": chance.choice(("Ready", "PodResizePending", "x")), "status": "True", "reason": "R", "message": "ü"}
    ]
    if kind == kinds.NODE:
        amounts = {name: chance.choice(QUANTITIES) for name in ("cpu", "memory", "example.com/x")}
        return {"capacity": amounts, "allocatable": {"cpu": chance.choice(QUANTITIES)}, "conditions": conditions}
    if kind == kinds.POD:
        record = {name: chance.choice(QUANTITIES) for name in ("cpu", "memory", "limits.cpu", "limits.memory")}
        told = {
            "name": chance.choice(("app", "main", "gone")),
            "allocatedResources": record,
            "resources": {"limits": record},
        }
        claims = [{"name": "gone", "resourceClaimName": "gone"}]
        return {
            "phase": chance.choice(("Running", "Pending", "Unknown")),
            "podIP": chance.choice(("127.0.0.1", "::1")),
            "conditions": conditions,
            "containerStatuses": [told],
            "resourceClaimStatuses": claims,
            "extendedResourceClaimStatus": {"resourceClaimName": "gone", "requestMappings": []},
        }
    if kind == kinds.RESOURCE_CLAIM:
        result = {
            "request": "r",
            "driver": "odd.example.com",
            "pool": "p",
            "device": "d",
            "tolerations": [{"operator": "Exists"}],
        }
        user = {"resource": chance.choice(("pods", "things")), "name": "gone", "uid": "u"}
        return {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    times = ("", "x", "2027-01-01", "9999-12-31T23:59:59Z", "1e30")
    if kind == kinds.RESOURCE_SCALING_ACTION:
        amounts = {name: chance.choice(QUANTITIES) for name in ("target", "before") if chance.random() < 0.5}
        told = {"startTime": chance.choice(times), **{name: {"cpu": text} for name, text in amounts.items()}}
        return {"state": chance.choice(("Running", "Pending", "Failed", "Odd")), "reason": "ü", **told}
    if kind == kinds.RESIZE_POLICY:
        return {"workloads": [{"name": "odd/app", "at": chance.choice(times)}], "conditions": conditions}
    return {"conditions": conditions, "state": chance.choice(("Running", "Deferred", "Odd")), "reason": "ü"}


async def put_odd(store, chance, numbers):
    """How many odd objects were accepted: what is refused is tried again without the damage."""
    accepted = 0
    samples = [each for each in SAMPLES if each["kind"] != "CustomResourceDefinition"] + list(own_samples())
    for number in numbers:
        sample = samples[number % len(samples)]
        kind = served_kind(store.registry, sample)
        for obj in (mutated(sample, chance)[0], copy.deepcopy(sample)):
            if await put(store, chance, kind, obj, f"odd-{number}"):
                accepted += 1
                break
    return accepted


async def put(store, chance, kind, obj, name):
    meta, namespace = obj.get("metadata"), "default" if kind.namespaced else ""
    if not isinstance(meta, dict):
        return False
    meta["name"] = name
    meta.pop("namespace", None)
    if isinstance(meta.get("annotations", {}), dict):
        meta["annotations"] = {**meta.get("annotations", {}), chance.choice(ANNOTATIONS): chance.choice(ODD_TEXTS)}
        if chance.random() < 0.3:
            meta["annotations"] |= {"prometheus.io/scrape": "true", "prometheus.io/port": "1"}
    if kind == kinds.POD and isinstance(obj.get("spec"), dict) and chance.random() < 0.6:
        obj["spec"].pop("schedulingGates", None)
        if chance.random() < 0.7:
            obj["spec"] |= {"nodeName": chance.choice(("leaving", "nowhere"))}
    try:
        await store.create(kind, obj, namespace)
    except StoreError:
        return False
    with suppress(StoreError):
        await store.patch(kind, name, namespace, fields={"status": odd_status(chance, kind)}, subresource="status")
    if chance.random() < 0.2:
        propagation = chance.choice((None, "Foreground", "Orphan"))
        await store.delete(kind, name, namespace, Deletion(propagation=propagation))
    return True


class Damaging:
    """A store whose lists and watches show objects named `odd…` with damage in their fields: the same each time.

    `torn`: values also have other types than they should.
    """

    def __init__(self, store, torn):
        self._store, self._torn = store, torn

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def list(self, *arguments, **options):
        page = await self._store.list(*arguments, **options)
        return dataclasses.replace(page, items=[damaged(each, self._torn) for each in page.items])

    async def watch(self, *arguments, **options):
        async for event in self._store.watch(*arguments, **options):
            yield dataclasses.replace(event, object=damaged(event.object, self._torn))


def alike(value, chance):
    """Of the same type as JSON, and odd."""
    if isinstance(value, bool) or value is None:
        return chance.choice((True, False, None))
    if isinstance(value, str):
        return chance.choice((*ODD_TEXTS, *QUANTITIES, "9" * 400))
    if isinstance(value, int | float):
        return chance.choice((0, -1, 2**31, 2**63, 1e30))
    return type(value)()


def damaged(obj, torn):
    if not name_of(obj).startswith("odd") or obj["kind"] in WHOLE:
        return obj
    chance, obj = random.Random(uid_of(obj)), copy.deepcopy(obj)
    for _ in range(chance.choice((1, 1, 2, 4))):
        parent = obj
        field = chance.choice(("metadata", "spec", "status"))
        while True:
            places = (
                [each for each in parent if each not in IDENTITY] if isinstance(parent, dict) else range(len(parent))
            )
            if not places:
                break
            if field is None:
                field = chance.choice(list(places))
            inner = parent.get(field) if isinstance(parent, dict) else parent[field]
            if isinstance(inner, dict | list) and inner and (parent is obj or chance.random() < 0.75):
                parent, field = inner, None
                continue
            if parent is not obj or field != "metadata":
                parent[field] = (
                    copy.deepcopy(chance.choice(GARBAGE)) if torn and chance.random() < 0.5 else alike(inner, chance)
                )
            break
    return obj


async def put_good(store):
    """What the controllers have work with."""
    repair = [{"key": "repair", "effect": "NoExecute"}]
    for name, taints in (("good", ()), ("leaving", repair), ("leaving-too", repair)):  # nothing odd is on the last
        capacity = {"cpu": "64", "memory": "64Gi", "pods": "5000"}
        await store.create(
            kinds.NODE, {"metadata": {"name": name}, "spec": {"taints": list(taints)}, "status": {"capacity": capacity}}
        )
        ready = [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]
        await store.patch(kinds.NODE, name, fields={"status": {"conditions": ready}}, subresource="status")
    request = {"name": "gpu", "exactly": {"deviceClassName": "good"}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    selector = [{"cel": {"expression": "device.driver == 'good.example.com'"}}]
    pool = {"name": "good", "generation": 1, "resourceSliceCount": 1}
    slice_spec = {
        "driver": "good.example.com",
        "nodeName": "good",
        "pool": pool,
        "devices": [{"name": f"d{n}"} for n in range(4)],
    }
    await store.create(kinds.DEVICE_CLASS, {"metadata": {"name": "good"}, "spec": {"selectors": selector}})
    await store.create(kinds.RESOURCE_SLICE, {"metadata": {"name": "good"}, "spec": slice_spec})
    await store.create(kinds.RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": "gpu"}, "spec": spec}, "work")


async def breathing(store):
    """The nodes' leases are renewed, as their agents would."""
    for name in ("good", "leaving", "leaving-too"):
        await store.create(
            kinds.LEASE, {"metadata": {"name": name}, "spec": {"renewTime": to_micro_time(wall())}}, "kube-node-lease"
        )
    while True:
        await asyncio.sleep(10)
        for name in ("good", "leaving", "leaving-too"):
            fields = {"spec": {"renewTime": to_micro_time(wall())}}
            await store.patch(kinds.LEASE, name, "kube-node-lease", fields=fields)


async def pod(store, name, **spec):
    resources = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}
    container = {"name": "app", "image": "x", "resources": resources}
    labels = {"app": "good", "headrace.dev/managed": "true"}
    obj = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container], **spec}}
    return await store.create(kinds.POD, obj, "work")


async def gone(store, kind, name, namespace="work"):
    try:
        await store.get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def soon(condition, seconds):
    async with asyncio.timeout(seconds):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.1)


async def work(store, monitoring):
    """A normal piece of work of each controller, or TimeoutError. Returns what was done."""
    done = []

    async def is_placed(name):
        return (await store.get(kinds.POD, name, "work"))["spec"].get("nodeName") == "good"

    async def is_admitted():
        status = (await store.get(kinds.POD, "web", "work")).get("status") or {}
        told = status.get("containerStatuses") or [{}]
        return read(told[0].get("allocatedResources")).get("cpu") == 2000

    async def is_decided():
        found = (await store.list(kinds.RESOURCE_SCALING_ACTION, "work")).items
        return any(each["spec"]["target"].get("cpu") for each in found)

    async def expect(what, condition, seconds=20):
        try:
            await soon(condition, seconds)
        except TimeoutError:
            done.append(f"NOT {what}")
        else:
            done.append(what)

    await put_good(store)
    old = to_time(wall() - 30 * 3600)
    event = {"metadata": {"name": "old"}, "involvedObject": {"kind": "Pod", "namespace": "work", "name": "x"}}
    micro = to_micro_time(wall() - 30 * 3600)
    await store.create(
        kinds.EVENT,
        event
        | {
            "firstTimestamp": old,
            "lastTimestamp": old,
            "eventTime": micro,
            "reportingComponent": "test.example.com/x",
            "reportingInstance": "x",
            "action": "A",
            "reason": "R",
            "type": "Normal",
        },
        "work",
    )
    await pod(store, "web")
    await pod(store, "device", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    await pod(store, "tainted", nodeName="leaving-too")
    await pod(store, "orphan", nodeName="never-was")
    reservation = {
        "node": "good",
        "resources": {"cpu": "1"},
        "beneficiaries": {"pods": ["web"]},
        "expirationTime": to_time(wall() + 5),
    }
    await store.create(kinds.CAPACITY_RESERVATION, {"metadata": {"name": "short"}, "spec": reservation}, "work")
    owner = await store.create(kinds.CONFIG_MAP, {"metadata": {"name": "owner"}}, "work")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of(owner)}
    await store.create(kinds.CONFIG_MAP, {"metadata": {"name": "child", "ownerReferences": [reference]}}, "work")
    await store.create(kinds.NAMESPACE, {"metadata": {"name": "ending"}})
    await store.create(kinds.CONFIG_MAP, {"metadata": {"name": "inside"}}, "ending")
    await expect("a Pod is placed", lambda: is_placed("web"))
    await expect("a Pod gets a claim and a device", lambda: is_placed("device"))
    target = {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}
    fields = {"spec": {"containers": [{"name": "app", **target}]}}
    status = {"containerStatuses": [{"name": "app", "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}]}
    await store.patch(
        kinds.POD,
        "web",
        "work",
        fields={"status": {"phase": "Running", **status}},
        subresource="status",
        strategic=True,
    )
    await store.patch(kinds.POD, "web", "work", fields=fields, subresource="resize", strategic=True)
    await expect("a resize is admitted", is_admitted)
    status["containerStatuses"][0]["resources"]["limits"]["cpu"] = "2"
    await store.patch(kinds.POD, "web", "work", fields={"status": status}, subresource="status", strategic=True)
    trigger = {"metric": "latency", "up": {"above": "1"}, "samples": {"matching": 1, "of": 1}}
    policy = {"selector": {"matchLabels": {"app": "good"}}, "max": {"cpu": "4"}, "triggers": [trigger]}
    await store.create(kinds.RESIZE_POLICY, {"metadata": {"name": "good"}, "spec": policy}, "work")
    await asyncio.sleep(1)
    for _ in range(3):
        monitoring.report("work/web/app", {"latency": 500.0})
        await asyncio.sleep(1)
    await expect("a policy decides", is_decided)
    await store.delete(kinds.CONFIG_MAP, "owner", "work")
    await expect("a dependent is collected", lambda: gone(store, kinds.CONFIG_MAP, "child"))
    await store.delete(kinds.NAMESPACE, "ending")
    await expect("a namespace ends", lambda: gone(store, kinds.NAMESPACE, "ending", ""))
    await expect("a reservation expires", lambda: gone(store, kinds.CAPACITY_RESERVATION, "short"), 60)
    rule = {"deviceSelector": {"driver": "good.example.com"}, "taint": {"key": "k", "effect": "NoExecute"}}
    await store.create(kinds.DEVICE_TAINT_RULE, {"metadata": {"name": "good"}, "spec": rule})

    async def is_leaving(name):
        return (
            await gone(store, kinds.POD, name)
            or "deletionTimestamp" in (await store.get(kinds.POD, name, "work"))["metadata"]
        )

    async def is_told():
        status = (await store.get(kinds.DEVICE_TAINT_RULE, "good")).get("status") or {}
        return bool(status.get("conditions"))

    await expect("a tainted device's Pod is evicted", lambda: is_leaving("device"))
    await expect("a rule tells of it", is_told)
    await expect("a tainted node's Pod is evicted", lambda: is_leaving("tainted"), 60)
    await expect("a Pod of no node goes", lambda: is_leaving("orphan"), 200)
    await expect("an old Event goes", lambda: gone(store, kinds.EVENT, "old"), 200)
    return done


@pytest.mark.parametrize("how", ["accepted", "damaged", "torn"])
@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_odd_all_controllers_go_on_working(how, seed):
    chance = random.Random(seed)
    store = await open_store()
    for name in ("default", "work", "kube-node-lease"):
        await store.create(kinds.NAMESPACE, {"metadata": {"name": name}})
    read_by_controllers = store if how == "accepted" else Damaging(store, how == "torn")
    monitoring = Monitoring(MemoryMetrics(), wall)
    with structlog.testing.capture_logs():
        manager = embedded_controllers(
            read_by_controllers, LoopClock(wall), structlog.get_logger(), CollectorRegistry(), monitoring
        )
        assert await put_odd(store, chance, range(200)) > 150  # before the start, and
        async with running(manager) as task:
            async with asyncio.timeout(60):
                await manager.wait_until_synced()
            assert await put_odd(store, chance, range(200, 400)) > 150  # while it runs
            await asyncio.sleep(30)
            assert not task.done()
            agents = asyncio.create_task(breathing(store))
            done = await work(store, monitoring)
            agents.cancel()
            policies, pods = manager.informers.of(kinds.RESIZE_POLICY), manager.informers.of(kinds.POD)
            targets(list(policies), list(pods), lambda key, error: None)  # the scraper's part
            assert not task.done()
    assert [each for each in done if each.startswith("NOT ") and (how != "torn" or each[4:] in ALWAYS)] == []
