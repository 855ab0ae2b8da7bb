"""What a driver may tell of a device in a claim's status: refused as kube-apiserver 1.37.2 refuses it."""

import asyncio

import pytest

from headrace.api.kinds import NAMESPACE, RESOURCE_CLAIM
from headrace.store.protocol import Invalid
from tests.runtime.home import open_store

DEVICE = {"driver": "a.com", "pool": "p", "device": "d"}
ALLOCATED = {"allocation": {"devices": {"results": [{"request": "g", **DEVICE}]}}}
CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "a"}}]}},
}
WHEN = "2026-01-01T00:00:00Z"


def tell(*devices):
    async def run():
        store = await open_store()
        await store.create(NAMESPACE, {"metadata": {"name": "default"}})
        await store.create(RESOURCE_CLAIM, CLAIM, "default")
        for status in (ALLOCATED, {"devices": list(devices)}):
            await store.patch(RESOURCE_CLAIM, "c", "default", fields={"status": status}, subresource="status")

    asyncio.run(run())


def ready(**more):
    return {"type": "Ready", "status": "True", "reason": "Ok", "message": "", "lastTransitionTime": WHEN, **more}


def test_addresses_conditions_and_names_that_are_right_are_taken():
    network = {"interfaceName": "net1", "hardwareAddress": "aa:bb", "ips": ["10.9.8.7/24", "2001:db8::1/64"]}
    tell({**DEVICE, "conditions": [ready(), ready(type="a.com/Up", reason="A:B")], "networkData": network})


@pytest.mark.parametrize(
    ("network", "field", "words"),
    [
        pytest.param({"ips": ["10.0.0.1"]}, "ips[0]", "must be a valid address in CIDR form", id="no length"),
        pytest.param({"ips": ["a"]}, "ips[0]", "must be a valid address in CIDR form", id="no address"),
        pytest.param({"ips": ["1.2.3.4/33"]}, "ips[0]", "must be a valid address in CIDR form", id="too long a prefix"),
        pytest.param({"ips": ["1.2.3.4/255.255.0.0"]}, "ips[0]", "must be a valid address in CIDR form", id="a mask"),
        pytest.param({"ips": ["fe80::0/64"]}, "ips[0]", 'canonical form ("fe80::/64")', id="zeros to be left out"),
        pytest.param({"ips": ["::ffff:1.2.3.4/120"]}, "ips[0]", 'canonical form ("1.2.3.4/24")', id="IPv4 as IPv6"),
        pytest.param({"ips": ["1.2.3.4/8"] * 2}, "ips[1]", "Duplicate value", id="an address twice"),
        pytest.param({"ips": [f"1.2.3.{n}/8" for n in range(17)]}, "ips", "must have at most 16", id="17 addresses"),
        pytest.param({"interfaceName": "x" * 257}, "interfaceName", "more than 256 bytes", id="a long interface"),
        pytest.param({"hardwareAddress": "x" * 129}, "hardwareAddress", "more than 128 bytes", id="a long hardware"),
    ],
)
def test_network_data_that_nobody_could_use_is_refused(network, field, words):
    with pytest.raises(Invalid) as raised:
        tell({**DEVICE, "networkData": network})
    (cause,) = raised.value.causes
    assert cause.field == f"status.devices[0].networkData.{field}"
    assert words in cause.message


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        pytest.param({"type": "a b"}, ["type"], id="a type that is no qualified name"),
        pytest.param({"type": ""}, ["type"], id="no type"),
        pytest.param({"status": "Maybe"}, ["status"], id="an unknown status"),
        pytest.param({"reason": ""}, ["reason"], id="no reason"),
        pytest.param({"reason": "x y"}, ["reason"], id="a reason that is no word"),
        pytest.param({"reason": "R" * 1025}, ["reason"], id="a long reason"),
        pytest.param({"message": "x" * 32769}, ["message"], id="a long message"),
        pytest.param({"lastTransitionTime": None}, ["lastTransitionTime"], id="no time"),
        pytest.param({"observedGeneration": -1}, ["observedGeneration"], id="a negative generation"),
        pytest.param({"status": "", "reason": "!"}, ["reason", "status"], id="two at once"),
    ],
)
def test_a_condition_that_breaks_the_rules_of_conditions_is_refused(change, fields):
    with pytest.raises(Invalid) as raised:
        tell({**DEVICE, "conditions": [ready(**change)]})
    found = sorted(each.field for each in raised.value.causes)
    assert found == [f"status.devices[0].conditions[0].{field}" for field in fields]


def test_a_condition_or_a_device_twice_is_refused():
    with pytest.raises(Invalid, match=r"status.devices\[0\].conditions\[1\]: Duplicate value: \"Ready\""):
        tell({**DEVICE, "conditions": [ready(), ready()]})
    with pytest.raises(Invalid, match=r"status.devices\[1\]: Duplicate value: \"a.com/p/d\""):
        tell(DEVICE, DEVICE)
