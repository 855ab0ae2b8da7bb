"""The limits of resource.k8s.io/v1, one row each: the last that is accepted and the first that is not."""

from typing import Any

import pytest

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.objects.local import LocalStore
from headrace.store.protocol import Invalid


def claim(**devices: Any) -> dict[str, Any]:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests, **devices}}}


def asking(**fields: Any) -> dict[str, Any]:
    return claim(requests=[{"name": "r", "exactly": {"deviceClassName": "gpu", **fields}}])


def numbered(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"x{number}", **fields} for number in range(count)]


def resource_slice(**spec: Any) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": "d.example.com", "nodeName": "n", "pool": pool, **spec}}


def device(**fields: Any) -> dict[str, Any]:
    return resource_slice(devices=[{"name": "d", **fields}])


def attributes(count: int) -> dict[str, Any]:
    return {f"a{number}": {"bool": True} for number in range(count)}


SELECTOR = {"cel": {"expression": "true"}}
STEPS = {"default": "4", "validRange": {"min": "1", "step": "2"}}
OPAQUE = {"opaque": {"driver": "d.example.com", "parameters": {"a": 1}}}
LIMITS: list[tuple[str, Kind, Any, int, str]] = [
    (
        "requests",
        kinds.RESOURCE_CLAIM,
        lambda n: claim(requests=numbered(n, exactly={"deviceClassName": "gpu"})),
        32,
        "spec.devices.requests",
    ),
    (
        "alternatives",
        kinds.RESOURCE_CLAIM,
        lambda n: claim(requests=[{"name": "r", "firstAvailable": numbered(n, deviceClassName="gpu")}]),
        8,
        "spec.devices.requests[0].firstAvailable",
    ),
    (
        "selectors",
        kinds.RESOURCE_CLAIM,
        lambda n: asking(selectors=[SELECTOR] * n),
        32,
        "spec.devices.requests[0].exactly.selectors",
    ),
    (
        "tolerations",
        kinds.RESOURCE_CLAIM,
        lambda n: asking(tolerations=[{"key": "k", "operator": "Exists"}] * n),
        16,
        "spec.devices.requests[0].exactly.tolerations",
    ),
    (
        "constraints",
        kinds.RESOURCE_CLAIM,
        lambda n: claim(constraints=[{"matchAttribute": "d.example.com/a"}] * n),
        32,
        "spec.devices.constraints",
    ),
    ("configs", kinds.RESOURCE_CLAIM, lambda n: claim(config=[OPAQUE] * n), 32, "spec.devices.config"),
    (
        "bytes of an expression",
        kinds.RESOURCE_CLAIM,
        lambda n: asking(selectors=[{"cel": {"expression": "true" + " " * (n - 4)}}]),
        10 * 1024,
        "spec.devices.requests[0].exactly.selectors[0].cel.expression",
    ),
    (
        "configs of a class",
        kinds.DEVICE_CLASS,
        lambda n: {"metadata": {"name": "c"}, "spec": {"config": [OPAQUE] * n}},
        32,
        "spec.config",
    ),
    ("devices", kinds.RESOURCE_SLICE, lambda n: resource_slice(devices=numbered(n)), 128, "spec.devices"),
    (
        "devices with taints",
        kinds.RESOURCE_SLICE,
        lambda n: resource_slice(devices=numbered(n, taints=[{"key": "k", "effect": "NoSchedule"}])),
        64,
        "spec.devices",
    ),
    ("attributes", kinds.RESOURCE_SLICE, lambda n: device(attributes=attributes(n)), 32, "spec.devices[0]"),
    (
        "characters of an attribute",
        kinds.RESOURCE_SLICE,
        lambda n: device(attributes={"a": {"string": "x" * n}}),
        64,
        "spec.devices[0].attributes[a].string",
    ),
    (
        "taints",
        kinds.RESOURCE_SLICE,
        lambda n: device(taints=[{"key": f"k{number}", "effect": "NoSchedule"} for number in range(n)]),
        16,
        "spec.devices[0].taints",
    ),
    (
        "counter sets",
        kinds.RESOURCE_SLICE,
        lambda n: resource_slice(sharedCounters=numbered(n, counters={"c": {"value": "1"}})),
        8,
        "spec.sharedCounters",
    ),
    (
        "counters of a set",
        kinds.RESOURCE_SLICE,
        lambda n: resource_slice(
            sharedCounters=numbered(1, counters={f"c{number}": {"value": "1"} for number in range(n)})
        ),
        32,
        "spec.sharedCounters[0].counters",
    ),
    (
        "binding conditions",
        kinds.RESOURCE_SLICE,
        lambda n: device(bindingConditions=[f"c{number}" for number in range(n)], bindingFailureConditions=["failed"]),
        4,
        "spec.devices[0].bindingConditions",
    ),
]


@pytest.mark.parametrize(("kind", "make", "most", "path"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS])
async def test_a_limit(store: LocalStore, kind: Kind, make: Any, most: int, path: str) -> None:
    namespace = "default" if kind.namespaced else ""
    await store.create(kind, make(most), namespace, dry_run=True)
    with pytest.raises(Invalid) as refused:
        await store.create(kind, make(most + 1), namespace, dry_run=True)
    assert path in {cause.field for cause in refused.value.causes}


@pytest.mark.parametrize(
    ("kind", "obj", "words"),
    [
        (
            kinds.RESOURCE_SLICE,
            resource_slice(nodeName=None),
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
        ),
        (kinds.RESOURCE_SLICE, resource_slice(allNodes=True), "but multiple fields are set"),
        (kinds.RESOURCE_SLICE, resource_slice(nodeName=None, allNodes=False), "must be either unset or set to true"),
        (
            kinds.RESOURCE_SLICE,
            resource_slice(devices=numbered(1), sharedCounters=numbered(1, counters={"c": {"value": "1"}})),
            "only one of `sharedCounters` or `devices` is allowed",
        ),
        (kinds.RESOURCE_SLICE, resource_slice(devices=[{"name": "a"}, {"name": "a"}]), "Duplicate value"),
        (kinds.RESOURCE_SLICE, device(attributes={"a": {"version": "1.2"}}), "semver.org spec 2.0.0"),
        (kinds.RESOURCE_SLICE, device(attributes={"not valid": {"int": 1}}), "a valid C identifier"),
        (
            kinds.RESOURCE_SLICE,
            device(capacity={"m": {"value": "1", "requestPolicy": {"default": "1", "validValues": ["1"]}}}),
            "allowMultipleAllocations must be true",
        ),
        (
            kinds.RESOURCE_SLICE,
            device(
                allowMultipleAllocations=True,
                capacity={
                    "m": {"value": "9", "requestPolicy": {"default": "4", "validRange": {"min": "1", "step": "2"}}}
                },
            ),
            "value is not a multiple of a given step",
        ),
        (kinds.RESOURCE_CLAIM, asking(allocationMode="All", count=1), "must not be specified when allocationMode is"),
        (kinds.RESOURCE_CLAIM, asking(count=-1), "must be greater than zero"),
        (kinds.RESOURCE_CLAIM, claim(requests=[{"name": "r"}]), "exactly one of `exactly` or `firstAvailable`"),
        (
            kinds.RESOURCE_CLAIM,
            claim(constraints=[{"requests": ["other"], "matchAttribute": "d.example.com/a"}]),
            "must be the name of a request in the claim",
        ),
        (kinds.RESOURCE_CLAIM, asking(selectors=[{"cel": {"expression": "device.nothing"}}]), "compilation failed"),
        (kinds.RESOURCE_CLAIM, asking(selectors=[{"cel": {"expression": "1"}}]), "must evaluate to bool"),
    ],
)
async def test_a_rule(store: LocalStore, kind: Kind, obj: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        await store.create(kind, obj, "default" if kind.namespaced else "", dry_run=True)
    assert words in str(refused.value)


async def test_a_claim_is_filled_in_and_its_spec_never_changes(store: LocalStore) -> None:
    made = await store.create(kinds.RESOURCE_CLAIM, asking(tolerations=[{"key": "k", "value": "v"}]), "default")
    wanted = made["spec"]["devices"]["requests"][0]["exactly"]
    assert (wanted["allocationMode"], wanted["count"]) == ("ExactCount", 1)
    assert wanted["tolerations"] == [{"key": "k", "value": "v", "operator": "Equal"}]
    with pytest.raises(Invalid, match="field is immutable"):
        await store.patch(kinds.RESOURCE_CLAIM, "c", "default", fields={"spec": {"devices": {"requests": []}}})


async def test_an_allocation_is_set_once_and_consumers_need_one(store: LocalStore) -> None:
    await store.create(kinds.RESOURCE_CLAIM, asking(), "default")
    consumer = {"resource": "pods", "name": "p", "uid": "1"}
    with pytest.raises(Invalid, match="may not be specified when `allocated` is not set"):
        await store.patch(
            kinds.RESOURCE_CLAIM, "c", "default", fields={"status": {"reservedFor": [consumer]}}, subresource="status"
        )
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    await store.patch(kinds.RESOURCE_CLAIM, "c", "default", fields={"status": status}, subresource="status")
    other = {"allocation": {"devices": {"results": [{**result, "device": "other"}]}}}
    with pytest.raises(Invalid, match=r"status\.allocation: .*field is immutable"):
        await store.patch(kinds.RESOURCE_CLAIM, "c", "default", fields={"status": other}, subresource="status")
