"""What users see of an object of the devices' kinds that cannot be: the field, and for an expression where in it."""

from typing import Any

import pytest

from headrace.api import kinds
from headrace.api.kinds import NAMESPACE, Kind
from headrace.store.protocol import Invalid
from tests.runtime.home import open_store

pytestmark = pytest.mark.looptime
GPU = "gpu.example.com"
RESULT = {"request": "gpu", "driver": GPU, "pool": "p", "device": "d"}
CONSUMER = {"resource": "pods", "name": "p"}


def asking(**fields: Any) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": GPU, **fields}}
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}


def selecting(expression: str) -> dict[str, Any]:
    return asking(selectors=[{"cel": {"expression": expression}}])


def device(**fields: Any) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": "n", "pool": pool, "devices": [{"name": "d", **fields}]}
    return {"metadata": {"name": "s"}, "spec": spec}


def counters(count: int) -> dict[str, Any]:
    return {f"c{number}": {"value": "1"} for number in range(count)}


async def refused(kind: Kind, obj: dict[str, Any]) -> Invalid:
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    with pytest.raises(Invalid) as refusal:
        await store.create(kind, obj, "default" if kind.namespaced else "")
    return refusal.value


@pytest.mark.parametrize(
    ("kind", "obj", "field"),
    [
        pytest.param(
            kinds.RESOURCE_SLICE,
            device(consumesCounters=[{"counterSet": f"s{at}", "counters": counters(1)} for at in range(3)]),
            "spec.devices[0].consumesCounters",
            id="two consumptions a device",
        ),
        pytest.param(
            kinds.RESOURCE_SLICE,
            device(consumesCounters=[{"counterSet": "s", "counters": counters(33)}]),
            "spec.devices[0].consumesCounters[0].counters",
            id="32 counters a consumption",
        ),
        pytest.param(
            kinds.RESOURCE_SLICE,
            device(
                allowMultipleAllocations=True,
                capacity={
                    "m": {
                        "value": "20",
                        "requestPolicy": {"default": "1", "validValues": [str(at) for at in range(1, 12)]},
                    }
                },
            ),
            "spec.devices[0].capacity[m].requestPolicy.validValues",
            id="10 valid values",
        ),
        pytest.param(
            kinds.RESOURCE_SLICE,
            device(bindingConditions=["a"], bindingFailureConditions=[f"f{at}" for at in range(5)]),
            "spec.devices[0].bindingFailureConditions",
            id="4 failure conditions",
        ),
        pytest.param(
            kinds.RESOURCE_SLICE,
            device(attributes={"x" * 33: {"int": 1}}),
            "spec.devices[0].attributes",
            id="32 characters of an attribute's name",
        ),
        pytest.param(
            kinds.DEVICE_CLASS,
            {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": "true"}}] * 33}},
            "spec.selectors",
            id="32 selectors of a class",
        ),
        pytest.param(
            kinds.DEVICE_CLASS,
            {"metadata": {"name": "c"}, "spec": {"extendedResourceName": "cpu"}},
            "spec.extendedResourceName",
            id="an extended resource has a domain",
        ),
        pytest.param(
            kinds.DEVICE_TAINT_RULE,
            {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "Sometimes"}}},
            "spec.taint.effect",
            id="a taint's effect",
        ),
        pytest.param(
            kinds.RESOURCE_CLAIM_TEMPLATE,
            {"metadata": {"name": "t"}, "spec": {"spec": asking(count=-1)["spec"]}},
            "spec.spec.devices.requests[0].exactly.count",
            id="a template's claim is judged like a claim",
        ),
        pytest.param(
            kinds.RESOURCE_CLAIM,
            {
                "metadata": {"name": "c"},
                "spec": {
                    "devices": {"config": [{"opaque": {"driver": GPU, "parameters": {"a": "x" * 10 * 1024}}}]},
                },
            },
            "spec.devices.config[0].opaque.parameters",
            id="10 KiB of opaque parameters",
        ),
    ],
)
async def test_the_field_is_named(kind, obj, field):
    found = await refused(kind, obj)
    assert field in {cause.field for cause in found.causes}


@pytest.mark.parametrize(
    ("status", "field"),
    [
        pytest.param(
            {"allocation": {"devices": {"results": [{**RESULT, "device": f"d{at}"} for at in range(33)]}}},
            "status.allocation.devices.results",
            id="32 results",
        ),
        pytest.param(
            {
                "allocation": {"devices": {"results": [RESULT]}},
                "reservedFor": [{**CONSUMER, "uid": str(at)} for at in range(257)],
            },
            "status.reservedFor",
            id="256 consumers",
        ),
    ],
)
async def test_the_status_has_limits_too(status, field):
    store = await open_store()
    await store.create(NAMESPACE, {"metadata": {"name": "default"}})
    await store.create(kinds.RESOURCE_CLAIM, asking(), "default")
    with pytest.raises(Invalid) as refusal:
        await store.patch(kinds.RESOURCE_CLAIM, "c", "default", fields={"status": status}, subresource="status")
    assert field in {cause.field for cause in refusal.value.causes}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        pytest.param(
            'device.attributes["gpu.example.com"].model = "A100"',
            ["compilation failed", "Syntax error", " | .....", "^"],
            id="one equals sign",
        ),
        pytest.param(
            'device.atributes["gpu.example.com"].model == "A100"',
            ["compilation failed", "undefined field 'atributes'", " | .....", "^"],
            id="a field that is not there",
        ),
        pytest.param(
            'device.capacity["gpu.example.com"].memory > "64Gi"',
            ["compilation failed", "found no matching overload", "^"],
            id="a quantity is no text",
        ),
        pytest.param(
            "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, "
            "device.attributes.all(e, a + b + c + d + e != ''))))) ",
            ["too complex, exceeds cost limit"],
            id="what would cost too much on the worst device",
        ),
    ],
)
async def test_an_expression_is_refused_with_its_place_and_reason(expression, words):
    found = await refused(kinds.RESOURCE_CLAIM, selecting(expression))
    [cause] = found.causes
    assert cause.field == "spec.devices.requests[0].exactly.selectors[0].cel.expression"
    for each in words:
        assert each in cause.message
