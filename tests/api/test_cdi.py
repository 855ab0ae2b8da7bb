"""CDI documents: what is valid, the lowest version that holds it, names, and the edits of several devices together."""

import msgspec
import pytest

from headrace.api.cdi import (
    CdiMount,
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    InvalidCdi,
    NetDevice,
    Spec,
    merge,
    minimum_version,
    qualified_name,
    read,
    spec,
    with_env,
)

SOME = ContainerEdits(env=("A=1",))


def document(*devices, kind="example.com/gpu", edits=ContainerEdits()):  # noqa: B008  # frozen
    return spec(devices or [Device("gpu0", SOME)], kind, edits)


@pytest.mark.parametrize(
    ("found", "version"),
    [
        pytest.param(document(), "0.3.0", id="environment alone"),
        pytest.param(
            document(Device("gpu0", ContainerEdits(mounts=(CdiMount("/a", "/b", type="bind"),)))),
            "0.4.0",
            id="a mount with a type",
        ),
        pytest.param(
            document(Device("gpu0", ContainerEdits(device_nodes=(DeviceNode("/dev/x", host_path="/dev/y"),)))),
            "0.5.0",
            id="a device node under another name",
        ),
        pytest.param(document(Device("0", SOME)), "0.5.0", id="a device whose name begins with a digit"),
        pytest.param(document(Device("gpu0", SOME, {"a": "b"})), "0.6.0", id="annotations"),
        pytest.param(document(kind="example.com/gpu.large"), "0.6.0", id="a class with a dot"),
        pytest.param(document(edits=ContainerEdits(additional_gids=(5,))), "0.7.0", id="additional groups"),
        pytest.param(document(edits=ContainerEdits(intel_rdt=IntelRdt(clos_id="x"))), "0.7.0", id="a class of service"),
        pytest.param(document(edits=ContainerEdits(intel_rdt=IntelRdt(schemata=("L3:0=f",)))), "1.1.0", id="schemata"),
        pytest.param(
            document(edits=ContainerEdits(net_devices=(NetDevice("eth0", "net1"),))), "1.1.0", id="interfaces"
        ),
    ],
)
def test_a_document_says_the_lowest_version_that_holds_it(found, version):
    assert (found.cdi_version, minimum_version(found)) == (version, version)
    assert read(msgspec.json.encode(found)) == found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"cdiVersion": "9.9.9"}, "cdiVersion '9.9.9': must be one of", id="an unknown version"),
        pytest.param({"kind": "gpu"}, "kind 'gpu': must be vendor/class", id="a kind without a vendor"),
        pytest.param({"kind": "-x/gpu"}, "kind '-x/gpu': must be vendor/class", id="a vendor that begins with a dash"),
        pytest.param({"devices": []}, "devices: must name at least one device", id="no device"),
        pytest.param({"surprise": 1}, "unknown field `surprise`", id="a field that nobody knows"),
        pytest.param(
            {"devices": [{"name": "a/b", "containerEdits": {"env": ["A=1"]}}]}, "devices[0].name 'a/b'", id="a bad name"
        ),
        pytest.param(
            {"devices": [{"name": "a", "containerEdits": {}}]},
            "devices[0].containerEdits: must not be empty",
            id="a device that edits nothing",
        ),
        pytest.param(
            {"devices": [{"name": "a", "containerEdits": {"env": ["A"]}}]},
            "devices[0].containerEdits.env[0] 'A': must be NAME=VALUE",
            id="a variable without a value",
        ),
        pytest.param(
            {"devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}}] * 2},
            "devices[1].name 'a': must be unique",
            id="one name twice",
        ),
        pytest.param(
            {"containerEdits": {"hooks": [{"hookName": "later", "path": "/x"}]}},
            "hooks[0].hookName 'later': must be one of prestart",
            id="an unknown hook",
        ),
        pytest.param(
            {"containerEdits": {"deviceNodes": [{"path": "/dev/x", "permissions": "rwx"}]}},
            "permissions 'rwx': must be of r, w and m",
            id="permissions that are none",
        ),
        pytest.param(
            {"containerEdits": {"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]}},
            "cdiVersion '0.3.0': must be at least 0.4.0",
            id="more than its version has",
        ),
    ],
)
def test_what_is_wrong_is_named(change, words):
    whole = {
        "cdiVersion": "0.3.0",
        "kind": "example.com/gpu",
        "devices": [{"name": "gpu0", "containerEdits": {"env": ["A=1"]}}],
    }
    with pytest.raises(InvalidCdi) as raised:
        read(msgspec.json.encode(whole | change))
    assert words in str(raised.value)


@pytest.mark.parametrize("text", ["example.com/gpu=gpu-0", "v/c=0", "a.b-c_d/e_f=x:y.z"])
def test_a_qualified_name_comes_apart_and_together_again(text):
    assert str(qualified_name(text)) == text


@pytest.mark.parametrize(
    "text", ["", "gpu0", "example.com/gpu", "example.com=gpu0", "example.com/gpu=", "1a/b=c", "a/b=c "]
)
def test_what_is_no_qualified_name_is_refused(text):
    with pytest.raises(InvalidCdi):
        qualified_name(text)


def test_common_edits_come_once_and_before_the_first_device():
    both = document(
        Device("a", ContainerEdits(env=("A=a",))),
        Device("b", ContainerEdits(env=("B=b",))),
        edits=ContainerEdits(env=("ALL=1",), hooks=(Hook("prestart", "/h"),)),
    )
    other = document(Device("c", ContainerEdits(env=("C=c",))), kind="example.com/nic")
    found = merge([both, other], ["example.com/gpu=b", "example.com/nic=c", "example.com/gpu=a", "example.com/gpu=b"])
    assert found.env == ("ALL=1", "B=b", "C=c", "A=a")
    assert len(found.hooks) == 1


def test_every_device_that_nobody_has_is_named():
    with pytest.raises(InvalidCdi, match=r"unresolvable CDI devices .*=x, .*=y"):
        merge([document()], ["example.com/gpu=x", "example.com/gpu=gpu0", "example.com/gpu=y"])


def test_a_device_in_two_documents_is_in_conflict():
    with pytest.raises(InvalidCdi, match="conflicting CDI devices"):
        merge([document(), document(Device("gpu0", ContainerEdits(env=("A=2",))))], ["example.com/gpu=gpu0"])


def test_the_devices_environment_wins_over_the_pods():
    assert with_env({"X": "pod", "Y": "pod"}, ContainerEdits(env=("X=cdi", "Z=a=b"))) == {
        "X": "cdi",
        "Y": "pod",
        "Z": "a=b",
    }


def test_a_frozen_document_is_a_value():
    assert document() == document()
    assert isinstance(document(), Spec)
