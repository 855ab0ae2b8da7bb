"""Which slices a driver publishes: nothing for nothing, a new generation for a change, parts of 128 and 64."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.devices.driver.interface import Pool, allocated
from headrace.devices.driver.inventory import DEVICES
from headrace.devices.driver.simulated import SLICE_NAMES, SimulatedGpus
from headrace.devices.driver.slices import plan, slice_name
from headrace.runtime.actions import Create, Delete, Patch

NODE = {"metadata": {"name": "node-b", "uid": "n"}}
NAME = "gpu.example.com"
LISTS = {"attributes": {"a": {"ints": [1]}}}


def pool(count=2, **fields):
    return Pool("node-b", [{"name": f"gpu-{number}", **fields} for number in range(count)])


def published(writes, known=()):
    """The slices after these writes."""
    versions = itertools.count(1)
    after = {each["metadata"]["name"]: each for each in known}
    for write in writes:
        match write:
            case Create(_, _, obj):
                obj = {**obj, "metadata": {**obj["metadata"], "uid": obj["metadata"]["name"]}}
                after[obj["metadata"]["name"]] = obj
            case Patch(_, _, name, fields):
                after[name] = {**after[name], **fields}
            case Delete(_, _, name):
                del after[name]
    for each in after.values():
        each["metadata"]["resourceVersion"] = str(next(versions))
    return list(after.values())


def test_the_seeds_slice_is_published_under_its_printed_name(tmp_path):
    gpus = SimulatedGpus("node-a", tmp_path)
    [write] = plan(NAME, {"metadata": {"name": "node-a", "uid": "n"}}, gpus.pools(), [])
    assert write.object["metadata"]["name"] == "node-a-gpu.example.com-x7k2p" == SLICE_NAMES["node-a"]
    assert write.object["spec"] == {
        "driver": NAME,
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        "devices": list(DEVICES),
    }


def test_what_is_published_is_not_published_again():
    known = published(plan(NAME, NODE, [pool()], []))
    assert plan(NAME, NODE, [pool()], known) == []


def test_a_slice_that_somebody_applied_by_hand_is_taken_as_it_is(tmp_path):
    spec = {
        "driver": NAME,
        "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        "devices": list(DEVICES),
    }
    known = [{"metadata": {"name": "node-a-gpu.example.com-x7k2p", "uid": "x", "resourceVersion": "1"}, "spec": spec}]
    assert (
        plan(NAME, {"metadata": {"name": "node-a", "uid": "n"}}, SimulatedGpus("node-a", tmp_path).pools(), known) == []
    )


def test_a_change_is_a_new_generation_under_the_same_names():
    known = published(plan(NAME, NODE, [pool(2)], []))
    [write] = plan(NAME, NODE, [pool(3)], known)
    assert isinstance(write, Patch)
    assert write.name == known[0]["metadata"]["name"]
    assert write.fields["spec"]["pool"]["generation"] == 2


@pytest.mark.parametrize(
    ("count", "fields", "sizes"),
    [
        (128, {}, [128]),
        (129, {}, [128, 1]),
        (65, {"taints": [{"key": "a"}]}, [64, 1]),
        (65, {"attributes": {"a": {"ints": [1]}}}, [64, 1]),
        (0, {}, [0]),
    ],
)
def test_a_pool_is_parted_at_kubernetes_limits(count, fields, sizes):
    writes = plan(NAME, NODE, [pool(count, **fields)], [])
    assert [len(write.object["spec"]["devices"]) for write in writes] == sizes
    assert {write.object["spec"]["pool"]["resourceSliceCount"] for write in writes} == {len(sizes)}
    assert len({write.object["metadata"]["name"] for write in writes}) == len(sizes)


@pytest.mark.parametrize(("before", "after"), [(300, 2), (2, 300), (300, 200), (129, 128)])
def test_after_the_writes_nothing_is_left_to_do(before, after):
    known = published(plan(NAME, NODE, [pool(before)], []))
    known = published(plan(NAME, NODE, [pool(after)], known), known)
    assert plan(NAME, NODE, [pool(after)], known) == []
    assert sum(len(each["spec"]["devices"]) for each in known) == after
    assert {each["spec"]["pool"]["generation"] for each in known} == {2}


def test_counters_lie_in_slices_of_their_own_before_the_devices():
    device = {"name": "gpu-0", "consumesCounters": [{"counterSet": "set-0", "counters": {"memory": {"value": "1"}}}]}
    counters = [{"name": f"set-{number}", "counters": {"memory": {"value": "1024Mi"}}} for number in range(9)]
    parted = Pool("node-b", [device] * 65, counters=counters)
    writes = plan(NAME, NODE, [parted], [])
    told = [
        (len(spec.get("sharedCounters", ())), len(spec.get("devices", ())))
        for spec in (write.object["spec"] for write in writes)
    ]
    assert told == [(8, 0), (1, 0), (0, 64), (0, 1)]
    assert not any("devices" in write.object["spec"] and "sharedCounters" in write.object["spec"] for write in writes)
    known = published(writes)
    assert plan(NAME, NODE, [parted], known) == []


def test_a_slice_that_held_devices_and_now_holds_counters_loses_its_devices():
    known = published(plan(NAME, NODE, [pool()], []))
    writes = plan(NAME, NODE, [Pool("node-b", pool().devices, counters=[{"name": "set", "counters": {}}])], known)
    assert [type(write) for write in writes] == [Patch, Create]
    assert writes[0].fields["spec"]["devices"] is None
    assert writes[0].fields["spec"]["sharedCounters"] == [{"name": "set", "counters": {}}]


def test_what_an_api_server_writes_otherwise_or_adds_is_no_change():
    taint = {"key": "a", "value": "1", "effect": "NoSchedule"}
    of_driver = pool(1, capacity={"memory": {"value": "1024Mi"}}, taints=[taint])
    served = pool(1, capacity={"memory": {"value": "1Gi"}}, taints=[{**taint, "timeAdded": "2026-01-01T00:00:00Z"}])
    known = published(plan(NAME, NODE, [served], []))
    assert plan(NAME, NODE, [of_driver], known) == []
    assert plan(NAME, NODE, [pool(1, capacity={"memory": {"value": "2Gi"}}, taints=[taint])], known) != []


def test_a_pool_that_is_no_more_goes_and_other_drivers_stay():
    known = published(plan(NAME, NODE, [pool()], []))
    other = {**known[0], "metadata": {"name": "x", "uid": "x"}, "spec": {**known[0]["spec"], "driver": "other"}}
    writes = plan(NAME, NODE, [], [*known, other])
    assert [(type(write), write.name) for write in writes] == [(Delete, known[0]["metadata"]["name"])]


def test_a_computed_name_is_always_the_same():
    assert slice_name(NAME, "node-b", "x") == slice_name(NAME, "node-b", "x") != slice_name(NAME, "node-b", "y")


def test_a_device_gets_its_requests_configuration_the_claims_after_the_classs():
    def entry(source, requests, number, driver=NAME):
        return {"source": source, "requests": requests, "opaque": {"driver": driver, "parameters": {"n": number}}}

    claim = {
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "a/big", "driver": NAME, "pool": "p", "device": "d"},
                        {"request": "b", "driver": "other", "pool": "p", "device": "e"},
                    ],
                    "config": [
                        entry("FromClaim", ["a"], 3),
                        entry("FromClass", [], 1),
                        entry("FromClaim", ["b"], 9),
                        entry("FromClaim", [], 9, "other"),
                        entry("FromClass", ["a/big"], 2),
                    ],
                }
            }
        }
    }
    [found] = allocated(claim, NAME)
    assert [each["n"] for each in found.config] == [1, 2, 3]


pools = st.builds(
    lambda count, fields, sets: Pool(
        "node-b", pool(count, **fields).devices, counters=[{"name": f"set-{n}", "counters": {}} for n in range(sets)]
    ),
    st.integers(0, 300),
    st.sampled_from([{}, {"taints": [{"key": "a"}]}]),
    st.integers(0, 20),
)


def visible(slices):
    """What a scheduler may use: the newest generation, once all its slices are there; None while they are not."""
    newest = max((each["spec"]["pool"]["generation"] for each in slices), default=0)
    current = [each["spec"] for each in slices if each["spec"]["pool"]["generation"] == newest]
    if not current or len(current) != current[0]["pool"]["resourceSliceCount"]:
        return None
    devices = [device["name"] for spec in current for device in spec.get("devices") or ()]
    counters = [each["name"] for spec in current for each in spec.get("sharedCounters") or ()]
    return sorted(devices), sorted(counters)


def named(target):
    return sorted(each["name"] for each in target.devices), sorted(each["name"] for each in target.counters)


@given(before=pools, after=pools, cut=st.integers(0, 10))
def test_cut_short_anywhere_a_pool_is_the_old_one_or_none_or_the_new_one_and_the_next_plan_ends_it(before, after, cut):
    known = published(plan(NAME, NODE, [before], []))
    assert visible(known) == named(before)
    half = published(plan(NAME, NODE, [after], known)[:cut], known)
    assert visible(half) in (named(before), None, named(after))
    whole = published(plan(NAME, NODE, [after], half), half)
    assert visible(whole) == named(after)
    assert plan(NAME, NODE, [after], whole) == []
    newest = max(each["spec"]["pool"]["generation"] for each in known)
    assert all(each["spec"]["pool"]["generation"] >= newest for each in whole)


def test_a_pool_never_goes_back_behind_a_generation_that_was_seen():
    [write] = plan(NAME, NODE, [pool()], [], {"node-b": 7, "other": 9})
    assert write.object["spec"]["pool"]["generation"] == 8
