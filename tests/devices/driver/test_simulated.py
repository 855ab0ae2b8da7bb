"""The simulated GPUs: what they put into a CDI document, and that they leave nothing behind."""

import pytest

from headrace.api.cdi import merge, read
from headrace.devices.driver.interface import Allocated, PrepareError
from headrace.devices.driver.inventory import COMPUTE_UNITS, PARTITIONS, PCIE_ROOT, PROFILES, TOPOLOGY
from headrace.devices.driver.simulated import NIC_NAME, SimulatedGpus, SimulatedNics

UID = "6f0c4a52-0000-0000-0000-000000000001"


def gpu(number=0, *config):
    return Allocated("gpu", "node-a", f"gpu-{number}", config)


def config(**fields):
    return {"apiVersion": "gpu.example.com/v1", "kind": "GpuConfig", **fields}


def sharing(strategy, **fields):
    return config(sharing={"strategy": strategy, **fields})


@pytest.fixture
def gpus(tmp_path):
    return SimulatedGpus("node-a", tmp_path / "cdi")


def documents(tmp_path):
    return [read(path.read_bytes()) for path in (tmp_path / "cdi").iterdir()]


def test_a_container_learns_its_devices_from_its_environment(gpus, tmp_path):
    prepared = gpus.prepare(UID, [gpu(0), gpu(1, sharing("TimeSlicing"))])
    names = [name for each in prepared for name in each.cdi_names]
    assert names == [f"gpu.example.com/claim={UID}-gpu-0", f"gpu.example.com/claim={UID}-gpu-1"]
    assert merge(documents(tmp_path), names).env == (
        "GPU_DEVICE_0=gpu-0",
        f"GPU_DEVICE_0_RESOURCE_CLAIM={UID}",
        "GPU_DEVICE_1=gpu-1",
        f"GPU_DEVICE_1_RESOURCE_CLAIM={UID}",
        "GPU_DEVICE_1_SHARING_STRATEGY=TimeSlicing",
        "GPU_DEVICE_1_TIMESLICE_INTERVAL=Default",
    )


def test_both_calls_may_be_repeated(gpus, tmp_path):
    assert gpus.prepare(UID, [gpu()]) == gpus.prepare(UID, [gpu()])
    [path] = (tmp_path / "cdi").iterdir()
    assert UID not in path.name
    gpus.unprepare(UID)
    gpus.unprepare(UID)
    assert documents(tmp_path) == []


def test_the_last_configuration_counts(gpus, tmp_path):
    prepared = gpus.prepare(UID, [gpu(0, sharing("SpacePartitioning"), sharing("TimeSlicing"))])
    assert merge(documents(tmp_path), prepared[0].cdi_names).env[-2] == "GPU_DEVICE_0_SHARING_STRATEGY=TimeSlicing"


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (gpu(7), "device node-a/gpu-7: this node has gpu-0, gpu-1"),
        (gpu(0, sharing("Magic")), "sharing.strategy 'Magic': must be one of TimeSlicing"),
        (gpu(0, sharing("x\nLD_PRELOAD=/evil")), "must be one of TimeSlicing"),
        (gpu(0, {"apiVersion": "v1", "kind": "Pod"}), "v1 Pod: must be gpu.example.com/v1 GpuConfig"),
        (gpu(0, {}), "None None: must be gpu.example.com/v1 GpuConfig"),
        (
            gpu(0, config(shared={})),
            "config of request 'gpu': shared: unknown field; known are apiVersion",
        ),
        (gpu(0, config(sharing=None)), "sharing None: must be an object"),
        (gpu(0, config(sharing={})), "sharing.strategy None: must be one of"),
        (gpu(0, config(sharing={"strategy": []})), "sharing.strategy .*: must be one of"),
        (
            gpu(0, sharing("TimeSlicing", timeSlicingConfig={"interval": "Never"})),
            "sharing.timeSlicingConfig.interval 'Never': must be one of Default, Short, Medium, Long",
        ),
        (
            gpu(0, sharing("TimeSlicing", spacePartitioningConfig={})),
            "sharing.spacePartitioningConfig: must be absent when sharing.strategy is TimeSlicing",
        ),
        (
            gpu(0, sharing("SpacePartitioning", spacePartitioningConfig={"partitionCount": True})),
            "sharing.spacePartitioningConfig.partitionCount True: must be a whole number from 1 to 7",
        ),
        (gpu(0, config(sharing=1), sharing("TimeSlicing")), "sharing 1: must be an object"),
    ],
)
def test_what_cannot_be_prepared_is_named_and_leaves_nothing(gpus, tmp_path, device, words):
    with pytest.raises(PrepareError, match=words):
        gpus.prepare(UID, [device])
    assert not (tmp_path / "cdi").exists()


def test_what_a_configuration_says_reaches_the_container(gpus, tmp_path):
    prepared = gpus.prepare(
        UID,
        [
            gpu(0, sharing("TimeSlicing", timeSlicingConfig={"interval": "Short"})),
            gpu(1, sharing("SpacePartitioning", spacePartitioningConfig={"partitionCount": 3}), config()),
        ],
    )
    env = merge(documents(tmp_path), [name for each in prepared for name in each.cdi_names]).env
    assert "GPU_DEVICE_0_TIMESLICE_INTERVAL=Short" in env
    assert "GPU_DEVICE_1_PARTITION_COUNT=3" in env


def test_a_device_that_a_claim_holds_twice_has_two_names(gpus, tmp_path):
    prepared = gpus.prepare(UID, [gpu(0), Allocated("other", "node-a", "gpu-0")])
    assert [name for each in prepared for name in each.cdi_names] == [
        f"gpu.example.com/claim={UID}-gpu-0",
        f"gpu.example.com/claim={UID}-gpu-0-2",
    ]
    assert documents(tmp_path)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_is_a_slice_that_the_api_takes_and_a_claim_can_be_prepared_from(profile, tmp_path):
    gpus = SimulatedGpus("node-a", tmp_path, profile)
    [pool] = gpus.pools()
    names = [device["name"] for device in pool.devices]
    assert len(set(names)) == len(names)
    assert gpus.prepare(UID, [Allocated("gpu", "node-a", name) for name in names])


def test_each_pcie_root_of_the_topology_has_two_gpus_and_a_nic(tmp_path):
    def roots(driver):
        return sorted(device["attributes"][PCIE_ROOT]["string"] for device in driver.pools()[0].devices)

    nics = roots(SimulatedNics("node-a", tmp_path))
    assert len(set(nics)) == len(nics) == 2
    assert roots(SimulatedGpus("node-a", tmp_path, TOPOLOGY)) == sorted(nics * 2)


def test_the_parts_of_a_gpu_consume_it_exactly(tmp_path):
    [pool] = SimulatedGpus("node-a", tmp_path, PARTITIONS).pools()
    for counters in pool.counters:
        for profile in ("full", "half", "quarter"):
            parts = [
                each["consumesCounters"][0]["counters"]
                for each in pool.devices
                if each["attributes"]["profile"]["string"] == profile
                and each["attributes"]["parent"]["string"] == counters["name"]
            ]
            assert sum(int(part["compute"]["value"]) for part in parts) == COMPUTE_UNITS
            assert sum(int(part["memory"]["value"].removesuffix("Gi")) for part in parts) == 80


def test_a_nic_hands_out_its_name_and_takes_no_configuration(tmp_path):
    nics = SimulatedNics("node-a", tmp_path / "cdi")
    prepared = nics.prepare(UID, [Allocated("nic", "node-a", "nic-1")])
    env = merge(documents(tmp_path), prepared[0].cdi_names).env
    assert env == ("NIC_DEVICE_1=nic-1", f"NIC_DEVICE_1_RESOURCE_CLAIM={UID}")
    with pytest.raises(PrepareError, match=f"config of request 'nic': {NIC_NAME} takes no configuration"):
        nics.prepare(UID, [Allocated("nic", "node-a", "nic-1", ({"kind": "X"},))])
    nics.unprepare(UID)
    assert documents(tmp_path) == []
