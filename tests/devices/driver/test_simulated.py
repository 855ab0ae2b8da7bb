"""The simulated GPUs: what they put into a CDI document, and that they leave nothing behind."""

import pytest

from headrace.api.cdi import merge, read
from headrace.devices.driver.interface import Allocated, PrepareError
from headrace.devices.driver.simulated import SimulatedGpus

UID = "6f0c4a52-0000-0000-0000-000000000001"


def gpu(number=0, *config):
    return Allocated("gpu", "node-a", f"gpu-{number}", config)


def sharing(strategy):
    return {"apiVersion": "gpu.example.com/v1", "kind": "GpuConfig", "sharing": {"strategy": strategy}}


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
    assert merge(documents(tmp_path), prepared[0].cdi_names).env[-1] == "GPU_DEVICE_0_SHARING_STRATEGY=TimeSlicing"


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (gpu(7), "device node-a/gpu-7: this node has gpu-0, gpu-1"),
        (gpu(0, sharing("Magic")), "sharing.strategy 'Magic': must be one of TimeSlicing"),
        (gpu(0, sharing("x\nLD_PRELOAD=/evil")), "must be one of TimeSlicing"),
        (gpu(0, {"apiVersion": "v1", "kind": "Pod"}), "must be gpu.example.com/v1 GpuConfig"),
    ],
)
def test_what_cannot_be_prepared_is_named_and_leaves_nothing(gpus, tmp_path, device, words):
    with pytest.raises(PrepareError, match=words):
        gpus.prepare(UID, [device])
    assert not (tmp_path / "cdi").exists()
