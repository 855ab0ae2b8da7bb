"""Why a node does not serve claims: losses by reason, and the smallest set that cannot be had together."""

from typing import Any

from headrace.devices.allocate.answers import inventory_of
from headrace.devices.allocate.why import NodeReport, RequestReport, report
from tests.devices.allocate.shapes import GPU, case, claim, distinct, gpus, match, want

TAINT = {"key": "broken", "effect": "NoSchedule"}


def explained(problem: dict[str, Any]) -> NodeReport:
    return report(problem["nodes"][0], problem["claims"], inventory_of(problem))


def selecting(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}


def request_of(found: NodeReport, name: str) -> RequestReport:
    return next(each for each in found.requests if each.request.endswith(f"request {name}"))


def test_every_device_is_lost_to_the_first_thing_that_keeps_it_away() -> None:
    devices = gpus(6)
    devices[1]["taints"] = [TAINT]
    del devices[2]["attributes"]["group"]
    problem = case(devices, claim(want("r", 4, **selecting(f'device.attributes["{GPU}"].group != 3'))))
    problem["allocated"] = [{"driver": GPU, "pool": "n", "device": "gpu-0"}]
    inventory = inventory_of(problem)
    inventory.hold("allocated", ())
    inventory.hold("default/other", problem["allocated"])
    found = report(problem["nodes"][0], problem["claims"], inventory)
    request = request_of(found, "r")
    assert (request.needed, request.devices, request.left, request.is_short) == (4, 6, 2, True)
    reasons = {loss.reason: loss.device for loss in request.losses}
    assert reasons["use by default/other"] == f"{GPU}/n/gpu-0"
    assert reasons["the taint broken:NoSchedule"] == f"{GPU}/n/gpu-1"
    assert any(reason.startswith("an error of the request's selector #0: no such key: group") for reason in reasons)
    assert reasons[f'the request\'s selector #0: device.attributes["{GPU}"].group != 3'] == f"{GPU}/n/gpu-3"


def test_the_missing_nic_alone_is_to_blame() -> None:
    found = explained(case(gpus(64), claim(want("gpu", 4), want("nic", kind="nic"))))
    assert request_of(found, "nic").left == 0
    assert found.conflict is not None
    assert found.conflict.requirements == ("claim default/c, request nic",)


def test_requests_that_want_the_same_few_devices_are_named_together_and_no_others() -> None:
    few = selecting(f'device.attributes["{GPU}"].group >= 32')
    requests = [want(name, 1, **few) for name in "abc"]
    found = explained(case(gpus(34), claim(want("big", 20), *requests)))
    assert found.conflict is not None
    assert found.conflict.requirements == tuple(f"claim default/c, request {name}" for name in "abc")


def test_value_groups_that_are_too_small_are_counted() -> None:
    found = explained(case(gpus(64, lambda at: at // 31), claim(want("r", 32), constraints=match())))
    assert found.constraints == (
        f"claim default/c, constraint #0: matchAttribute {GPU}/group "
        "leaves at most 31 devices together (0), 32 are needed",
    )
    assert found.conflict is not None
    assert "claim default/c, request r with count 31" in found.conflict.changes
    assert f"without claim default/c, constraint #0 (matchAttribute {GPU}/group)" in found.conflict.changes


def test_too_few_distinct_values_are_counted() -> None:
    found = explained(case(gpus(8, lambda at: at // 4), claim(want("r", 3), constraints=distinct())))
    assert "has 2 values among them, 3 are needed" in found.constraints[0]


def test_a_pool_that_is_being_published_is_named() -> None:
    problem = case(gpus(2), claim(want("r")))
    problem["slices"][0]["spec"]["pool"]["resourceSliceCount"] = 2
    found = explained(problem)
    assert found.pools == (f"pool {GPU}/n is incomplete: its driver is still publishing it",)


def test_what_fits_has_no_conflict() -> None:
    assert explained(case(gpus(2), claim(want("r")))).conflict is None


def test_the_report_reads_as_lines() -> None:
    lines = list(explained(case(gpus(2), claim(want("r", 3)))).lines())
    assert lines == [
        "node n:",
        "  claim default/c, request r: needs 3, 2 of 2 devices left, too few",
        "  cannot be had: claim default/c, request r",
        "  would do: claim default/c, request r with count 2",
    ]


def either(name: str, **alternatives: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "firstAvailable": [{"name": each, **one["exactly"]} for each, one in alternatives.items()]}


def test_a_request_one_of_whose_alternatives_has_devices_is_not_blamed_for_what_another_lacks() -> None:
    gpu = either("gpu", many=want("", 5), few=want("", 2))
    found = explained(case(gpus(4), claim(gpu, want("nic", kind="nic"))))
    assert found.short().startswith("claim default/c, request nic: 0 of 4 devices left: 4 lost to ")


def test_a_request_without_any_alternative_tells_what_each_of_them_lacks() -> None:
    gpu = either("gpu", many=want("", 5), none=want("", 1, **selecting("false")))
    assert explained(case(gpus(4), claim(gpu))).short() == (
        "claim default/c, request gpu/many: 4 of 4 devices left, 5 needed; "
        "claim default/c, request gpu/none: 0 of 4 devices left: 4 lost to the request's selector #0: false"
    )
