"""What a container is given of its CDI devices: applied as root for real, else refused with the reason."""

import os
import stat
from dataclasses import replace

import pytest

from headrace.api.cdi import CdiMount, ContainerEdits, Device, DeviceNode, Hook, IntelRdt, InvalidCdi, NetDevice, spec
from headrace.node.cdi import apply, edits
from headrace.node.runtimes.protocol import Mount

NULL = os.stat("/dev/null")
MINE = (os.major(NULL.st_rdev), os.minor(NULL.st_rdev))
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root has a mount namespace without more ado")


def written(directory, given):
    import msgspec

    document = spec([Device("one", given)], "example.com/gpu")
    (directory / "document.json").write_bytes(msgspec.json.encode(document))
    return edits(directory, ["example.com/gpu=one"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ContainerEdits(hooks=(Hook("prestart", "/bin/true"),)), "does not support hooks of CDI devices"),
        (ContainerEdits(net_devices=(NetDevice("eth0", "eth0"),)), "does not support netDevices"),
        (ContainerEdits(intel_rdt=IntelRdt(clos_id="a")), "does not support intelRdt"),
        (ContainerEdits(additional_gids=(44,)), "does not support additionalGids"),
    ],
    ids=["hooks", "network devices", "resource groups", "additional groups"],
)
def test_what_the_runtime_cannot_do_is_refused_with_the_reason(tmp_path, given, words):
    with pytest.raises(InvalidCdi, match=f"example.com/gpu=one: the process runtime {words}"):
        written(tmp_path, given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (DeviceNode("/dev/nothing-here"), "device node /dev/nothing-here: No such file or directory"),
        (DeviceNode("/etc/hostname"), "device node /etc/hostname: is no device of type b, c or p"),
        (DeviceNode("/dev/null", type="b"), "device node /dev/null: is no device of type b"),
        (DeviceNode("/dev/null", type="c", major=9, minor=9), "major and minor 9:9: it is 1:3 here"),
        (DeviceNode("/dev/null", uid=4711), "uid: the process runtime gives nodes as they are on the machine"),
        (DeviceNode("/dev/null", file_mode=0o600), "fileMode: the process runtime gives nodes as they are"),
        (
            CdiMount("/tmp", "/mnt/a", type="tmpfs"),
            "mount /mnt/a: type 'tmpfs': the process runtime supports bind",
        ),
        (
            CdiMount("/tmp", "/mnt/a", ("ro", "mode=1777")),
            "mount /mnt/a: options mode=1777: the process runtime",
        ),
        (CdiMount("/nowhere", "/mnt/a"), "mount /mnt/a: /nowhere does not exist"),
    ],
)
def test_a_node_or_mount_that_would_be_another_than_the_document_says_is_refused(given, words):
    found = ContainerEdits(device_nodes=(given,)) if isinstance(given, DeviceNode) else ContainerEdits(mounts=(given,))
    with pytest.raises(InvalidCdi, match=words):
        apply(found, {}, (), is_root=True)


def test_a_node_that_lies_there_as_the_document_says_needs_nothing():
    node = DeviceNode("/dev/null", type="c", major=MINE[0], minor=MINE[1], file_mode=stat.S_IMODE(NULL.st_mode), uid=0)
    given = ContainerEdits(device_nodes=(node,), env=("A=b",))
    for is_root in (True, False):
        assert apply(given, {"A": "pod", "C": "d"}, (), is_root=is_root) == ({"A": "b", "C": "d"}, ())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ContainerEdits(mounts=(CdiMount("/tmp", "/mnt/a"),)), "mount /mnt/a: only an agent that runs as root can"),
        (
            ContainerEdits(device_nodes=(DeviceNode("/dev/gpu", host_path="/dev/null"),)),
            "device node /dev/gpu: only an agent that runs as root can",
        ),
    ],
)
def test_an_ordinary_user_is_refused_all_but_the_environment(given, words):
    with pytest.raises(InvalidCdi, match=words):
        apply(given, {}, (), is_root=False)
    env, mounts = apply(given, {}, (), is_root=True)
    assert (env, len(mounts)) == ({}, 1)


def test_a_document_that_is_wrong_is_named_where_a_device_is_missing_and_keeps_no_other_device_from_its_pod(tmp_path):
    (tmp_path / "cut.json").write_text('{"cdiVersion": "0.6.0", "kind": "example.com/nic", "dev')
    (tmp_path / "odd.json").mkdir()
    assert written(tmp_path, ContainerEdits(env=("X=1",))).env == ("X=1",)
    with pytest.raises(InvalidCdi, match=r"unresolvable CDI devices example.com/nic=a; .*/cut.json: .*; .*/odd.json: "):
        edits(tmp_path, ["example.com/nic=a"])


def test_a_devices_environment_wins_over_the_pods_and_a_later_device_over_both(tmp_path):
    given = written(tmp_path, ContainerEdits(env=("X=cdi", "Y=first", "Y=second")))
    env, _ = apply(given, {"X": "pod", "Z": "pod"}, ())
    assert env == {"X": "cdi", "Y": "second", "Z": "pod"}


@AS_ROOT
async def test_nodes_and_mounts_are_in_the_container_and_nowhere_else(running, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/driver.so").write_text("code")
    given = ContainerEdits(
        device_nodes=(DeviceNode("/dev/headrace-test/gpu0", host_path="/dev/null"),),
        mounts=(CdiMount(str(tmp_path / "lib"), "/opt/headrace-test/lib", ("ro", "nosuid", "nodev", "bind")),),
    )
    _, mounts = apply(given, {}, (Mount(str(tmp_path), "/opt/headrace-test/pod"),))
    script = (
        "test -c /dev/headrace-test/gpu0 && echo x > /dev/headrace-test/gpu0 && echo node; "
        "cat /opt/headrace-test/lib/driver.so; echo; "
        "touch /opt/headrace-test/lib/new 2>/dev/null || echo read-only; "
        "grep -c ' /opt/headrace-test/lib ro,nosuid,nodev' /proc/self/mountinfo"
    )
    await running.runtime.start(replace(running.spec("cdi", "/bin/sh", "-c", script), mounts=mounts))
    assert (await running.ended("cdi")).exit_code == 0
    assert running.log("cdi") == ["node", "code", "read-only", "1"]
    assert not any("headrace-test" in os.listdir(each) for each in ("/dev", "/opt"))
