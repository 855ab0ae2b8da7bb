"""`host.headrace.dev` on recorded machines: what it finds, how it tells it, what it hands out."""

from pathlib import Path

import pytest

from headrace.api.cdi import merge, read
from headrace.api.kinds import RESOURCE_SLICE
from headrace.devices.driver.host import NAME, HostDevices
from headrace.devices.driver.host_discovery import NUMA_NODE, PCI_BUS_ID, PCIE_ROOT, discover
from headrace.devices.driver.interface import Allocated, PrepareError
from tests.devices.driver.test_published import directory, plugin, with_node

MACHINES = Path(__file__).parent / "machines"
UID = "6f0c4a52-0000-0000-0000-000000000001"


def recorded(name, root):
    """The machine's tree below `root`."""
    for line in (MACHINES / f"{name}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        path, sign, content = line.split(" ", 2) if line.count(" ") > 1 else (*line.split(" "), "")
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if sign == "->":
            place.symlink_to(content)
        else:
            place.write_text(f"{content}\n")
    return root


@pytest.fixture
def server(tmp_path):
    return HostDevices("node-a", tmp_path / "cdi", recorded("two-sockets", tmp_path / "root"))


def told(driver):
    return {device["name"]: device for device in driver.pools()[0].devices}


def value(device, attribute):
    return next(iter(device["attributes"].get(attribute, {"": None}).values()))


def test_every_device_of_a_server_is_found_once_and_bridges_are_not(server):
    kinds = {name: value(device, "kind") for name, device in told(server).items()}
    assert kinds == {
        "dri-vgem": "gpu",
        "kvm": "kvm",
        "net-eth0-1": "network",
        "net-eth0-1-2": "network",
        "numa-0": "numa",
        "numa-1": "numa",
        "pci-0000-01-00-0": "gpu",
        "pci-0000-80-03-0": "vfio",
        "pci-0000-80-04-0": "pci",
    }


@pytest.mark.parametrize(
    ("device", "attribute", "right"),
    [
        pytest.param("pci-0000-01-00-0", PCIE_ROOT, "pci0000:00", id="the root of a GPU behind a bridge"),
        pytest.param("pci-0000-01-00-0", PCI_BUS_ID, "0000:01:00.0", id="its own address, not the bridge's"),
        pytest.param("pci-0000-01-00-0", NUMA_NODE, 0, id="its NUMA node"),
        pytest.param("pci-0000-01-00-0", "vendor", "0x1002", id="its vendor"),
        pytest.param("pci-0000-01-00-0", "driver", "amdgpu", id="its driver"),
        pytest.param("pci-0000-80-03-0", PCIE_ROOT, "pci0000:80", id="the other root"),
        pytest.param("pci-0000-80-04-0", NUMA_NODE, None, id="no node where the kernel says -1"),
        pytest.param("net-eth0-1", PCIE_ROOT, "pci0000:00", id="an interface is where its function is"),
        pytest.param("net-eth0-1-2", "interface", "eth0.1", id="two names that a label cannot tell apart"),
        pytest.param("net-eth0-1-2", "speedMbps", 100000, id="an interface's speed"),
        pytest.param("net-eth0-1", "speedMbps", None, id="no speed where the link is down"),
        pytest.param("numa-0", "cpus", "0-3,8", id="the CPUs of a NUMA node"),
    ],
)
def test_what_a_device_says_of_itself(server, device, attribute, right):
    assert value(told(server)[device], attribute) == right


def test_a_numa_node_has_its_cpus_and_memory_to_share(server):
    node = told(server)["numa-0"]
    assert node["capacity"] == {"cpu": {"value": "5"}, "memory": {"value": "67108864Ki"}}
    assert node["allowMultipleAllocations"]


def test_a_virtual_machine_has_an_interface_behind_virtio(tmp_path):
    [device] = discover(recorded("virtual", tmp_path))
    assert device.name == "net-eth0"
    assert device.attributes[PCIE_ROOT] == {"string": "pci0000:00"}
    assert NUMA_NODE not in device.attributes


def test_where_there_is_nothing_nothing_is_found(tmp_path):
    assert discover(tmp_path) == []


@pytest.mark.parametrize("machine", ["two-sockets", "virtual"])
async def test_the_api_takes_what_is_published_and_it_is_not_written_again(machine, tmp_path):
    with directory() as path:
        store = await with_node()
        driver = HostDevices("node-a", path / "cdi", recorded(machine, tmp_path))
        await plugin(driver, store, path).publish()
        before = await store.list(RESOURCE_SLICE)
        assert len(before.items) == 1
        await plugin(driver, store, path).publish()
        assert await store.list(RESOURCE_SLICE) == before


def test_a_container_is_given_the_nodes_and_told_the_names(server, tmp_path):
    devices = [
        Allocated("all", "node-a", name) for name in ("pci-0000-01-00-0", "pci-0000-80-03-0", "kvm", "net-eth0-1")
    ]
    prepared = server.prepare(UID, devices)
    [path] = (tmp_path / "cdi").iterdir()
    given = merge([read(path.read_bytes())], [name for each in prepared for name in each.cdi_names])
    assert [node.path for node in given.device_nodes] == [
        "/dev/dri/card1",
        "/dev/dri/renderD128",
        "/dev/vfio/42",
        "/dev/vfio/vfio",
        "/dev/kvm",
    ]
    assert "HOST_DEVICE_NET_ETH0_1_INTERFACE=eth0-1" in given.env
    assert "HOST_DEVICE_PCI_0000_01_00_0_PCI_ADDRESS=0000:01:00.0" in given.env
    server.unprepare(UID)
    assert list((tmp_path / "cdi").iterdir()) == []


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (Allocated("r", "node-a", "pci-0000-99-00-0"), "device node-a/pci-0000-99-00-0: this machine has it no more"),
        (Allocated("r", "node-b", "kvm"), "device node-b/kvm: this machine has it no more"),
        (
            Allocated("r", "node-a", "kvm", ({"kind": "X"},)),
            f"config of request 'r': {NAME} takes no configuration",
        ),
    ],
)
def test_what_cannot_be_prepared_is_named_and_leaves_nothing(server, tmp_path, device, words):
    with pytest.raises(PrepareError, match=words):
        server.prepare(UID, [device])
    assert not (tmp_path / "cdi").exists()


def test_a_node_that_vanishes_makes_its_device_unhealthy_and_unpreparable(server, tmp_path):
    server.pools()
    assert all(each.healthy for each in server.health() if each.device != "dri-vgem")
    (tmp_path / "root/dev/vfio/42").unlink()
    (tmp_path / "root/dev/kvm").unlink()
    sick = {each.device: each.message for each in server.health() if not each.healthy}
    assert sick == {"pci-0000-80-03-0": "/dev/vfio/42 is not there", "kvm": "this machine has it no more"}
    with pytest.raises(PrepareError, match="device pci-0000-80-03-0: /dev/vfio/42 is not there"):
        server.prepare(UID, [Allocated("r", "node-a", "pci-0000-80-03-0")])
