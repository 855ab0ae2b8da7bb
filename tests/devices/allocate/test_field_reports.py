"""What went wrong for others in allocating devices, with the right value. Numbers are of kubernetes/kubernetes."""

from itertools import count
from typing import Any

from headrace.devices.allocate.allocator import Allocated, Failed, Outcome, Unsatisfiable, allocate
from headrace.devices.allocate.answers import inventory_of
from headrace.devices.allocate.inventory import Inventory
from tests.devices.allocate.shapes import EXPLODING, GPU, case, claim, gpus, want


def outcome(problem: dict[str, Any], inventory: Inventory | None = None) -> Outcome:
    ids = (f"share-{number}" for number in count())
    return allocate(problem["nodes"][0], problem["claims"], inventory or inventory_of(problem), ids)


def devices(found: Outcome) -> list[str]:
    assert isinstance(found, Allocated)
    return [result["device"] for each in found.results for result in each["devices"].get("results", ())]


def everything(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "All", **more}}


def partition(name: str, amount: int, **more: Any) -> dict[str, Any]:
    consumption = {"counterSet": "gpu", "counters": {"memory": {"value": str(amount)}}}
    return {"name": name, "attributes": {"size": {"int": amount}}, "consumesCounters": [consumption], **more}


def sized(name: str, size: int) -> dict[str, Any]:
    return want(name, selectors=[{"cel": {"expression": f'device.attributes["{GPU}"].size == {size}'}}])


def test_127554_all_takes_the_devices_of_the_class_on_the_chosen_node_only() -> None:
    problem = case(gpus(2), claim(everything("r")))
    other = {
        **problem["slices"][0]["spec"],
        "nodeName": "m",
        "pool": {"name": "m", "generation": 1, "resourceSliceCount": 1},
    }
    nics = {**problem["slices"][0]["spec"], "driver": "nic.example.com"}
    problem["slices"] += [{"metadata": {"name": "m-gpu"}, "spec": other}, {"metadata": {"name": "n-nic"}, "spec": nics}]
    found = outcome(problem)
    assert isinstance(found, Allocated)
    assert [(each["pool"], each["driver"]) for each in found.results[0]["devices"]["results"]] == [("n", GPU)] * 2


def test_129560_all_of_no_device_is_unsatisfiable() -> None:
    assert outcome(case(gpus(0), claim(everything("r")))) == Unsatisfiable()


def test_131662_a_claim_holds_32_devices_and_no_more() -> None:
    assert len(devices(outcome(case(gpus(64), claim(want("r", 32)))))) == 32
    found = outcome(case(gpus(64), claim(want("r", 33))))
    assert isinstance(found, Failed)
    assert found.error == (
        "claim default/c, request r: adding 33 devices exceeds the claim limit of 32, with 0 already accounted for"
    )


def test_139040_shares_in_use_count_when_counters_are_worked_out_anew() -> None:
    shared = partition("shared", 4, allowMultipleAllocations=True)
    counters = [{"name": "gpu", "counters": {"memory": {"value": "7"}}}]
    problem = case([shared, partition("whole", 7)], claim(sized("r", 7)), counters=counters)
    problem["allocated"] = [
        {"driver": GPU, "pool": "n", "device": "shared", "shareID": "one"},
        {"driver": GPU, "pool": "n", "device": "shared", "shareID": "two"},
    ]
    inventory = inventory_of(problem)
    assert outcome(problem, inventory) == Unsatisfiable()
    assert outcome(problem) == Unsatisfiable()  # after a restart
    inventory.hold("allocated", ())
    assert devices(outcome(problem, inventory)) == ["whole"]


def test_140436_counters_are_as_if_a_choice_that_failed_was_never_tried() -> None:
    counters = [{"name": "gpu", "counters": {"memory": {"value": "5"}}}]
    parts = [partition("big", 4), partition("small", 1), partition("middle", 3)]
    problem = case(parts, claim(want("first"), sized("second", 3)), counters=counters)
    assert devices(outcome(problem)) == ["small", "middle"]


def test_131730_four_of_64_and_a_nic_that_does_not_exist() -> None:
    assert outcome(EXPLODING["gpu 4 of 64 + missing nic"]) == Unsatisfiable()


def test_141118_more_slices_than_declared_make_a_pool_incomplete() -> None:
    problem = case(gpus(2), claim(want("r")))
    again = {"metadata": {"name": "again"}, "spec": problem["slices"][0]["spec"]}
    problem["slices"] += [again]
    assert outcome(problem) == Unsatisfiable()


def test_a_device_that_is_held_is_given_to_nobody_else() -> None:
    problem = case(gpus(3), claim(want("r")))
    inventory = inventory_of(problem)
    given = []
    for pod in range(3):
        found = outcome(problem, inventory)
        assert isinstance(found, Allocated)
        given += devices(found)
        inventory.hold(f"pod-{pod}", found.results[0]["devices"]["results"])
    assert given == ["gpu-0", "gpu-1", "gpu-2"]
    assert outcome(problem, inventory) == Unsatisfiable()
    inventory.drop_claim("pod-1")
    assert devices(outcome(problem, inventory)) == ["gpu-1"]


def test_of_requests_with_one_name_each_result_repeats_the_tolerations_of_the_first() -> None:
    """No server takes such a claim; Kubernetes' allocator looks a result's request up by its name."""
    first, second = [{"key": "a", "operator": "Exists"}], [{"key": "b", "operator": "Exists"}]
    found = outcome(case(gpus(2), claim(want("r", tolerations=first), want("r", tolerations=second))))
    assert isinstance(found, Allocated)
    assert [each["tolerations"] for each in found.results[0]["devices"]["results"]] == [first, first]
