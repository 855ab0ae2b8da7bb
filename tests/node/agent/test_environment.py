"""Environment, command and volumes of a container, as a kubelet composes them."""

import os
import stat

import pytest

from headrace.node import environment, volumes
from headrace.node.environment import Surroundings, Unresolved, argv, expand
from headrace.node.pod import view

AROUND = Surroundings(
    {
        ("ConfigMap", "settings"): {"colour": b"blue", "raw": b"\xff"},
        ("Secret", "keys"): {"token": b"s3cret"},
        ("ConfigMap", "missing"): None,
        ("Secret", "missing"): None,
    },
    "10.0.0.7",
    {"cpu": "7900m", "memory": "15Gi"},
)


def a_pod(container=None, volumes=(), **metadata):
    return view(
        {
            "metadata": {"name": "p", "namespace": "default", "uid": "u", **metadata},
            "spec": {
                "nodeName": "node-a",
                "containers": [{"name": "main", "command": ["run"], **(container or {})}],
                "volumes": list(volumes),
            },
        }
    )


def env_of(pod):
    found = environment.environment(pod, pod.spec.containers[0], AROUND)
    return {name: value for name, value in found.items() if name not in ("PATH", "HOSTNAME")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(NOBODY)", "$(NOBODY)"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A)$(A)", "11"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$$", "$"),
    ],
)
def test_references_expand_as_kubernetes_expands_them(text, expected):
    assert expand(text, {"A": "1"}) == expected


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ({"value": "plain"}, "plain"),
        ({"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}, "blue"),
        ({"valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}, "s3cret"),
        ({"valueFrom": {"configMapKeyRef": {"name": "missing", "key": "x", "optional": True}}}, None),
        ({"valueFrom": {"configMapKeyRef": {"name": "settings", "key": "x", "optional": True}}}, None),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}, "web"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['none']"}}}, ""),
        ({"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, "node-a"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}, "10.0.0.7"),
        ({"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}, "2"),
        ({"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}, "1500"),
        ({"valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}}, "1500"),
        ({"valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Gi"}}}, "15"),
    ],
)
def test_a_variable_is_what_it_refers_to(entry, value):
    pod = a_pod({"env": [{"name": "X", **entry}], "resources": {"limits": {"cpu": "1500m"}}}, labels={"app": "web"})
    assert env_of(pod) == ({} if value is None else {"X": value})


@pytest.mark.parametrize(
    ("value_from", "words"),
    [
        ({"configMapKeyRef": {"name": "missing", "key": "x"}}, 'configmap "missing" not found'),
        ({"secretKeyRef": {"name": "missing", "key": "x"}}, 'secret "missing" not found'),
        ({"configMapKeyRef": {"name": "settings", "key": "x"}}, "couldn't find key x in ConfigMap settings"),
        ({"configMapKeyRef": {"name": "settings", "key": "raw"}}, "not UTF-8"),
        ({"fieldRef": {"fieldPath": "spec.containers"}}, "must be one of"),
    ],
)
def test_what_leads_nowhere_is_named(value_from, words):
    with pytest.raises(Unresolved, match=words):
        env_of(a_pod({"env": [{"name": "X", "valueFrom": value_from}]}))


def test_later_wins_and_sees_what_came_before():
    pod = a_pod(
        {
            "envFrom": [
                {"secretRef": {"name": "keys"}, "prefix": "P_"},
                {"secretRef": {"name": "missing", "optional": True}},
            ],
            "env": [{"name": "P_token", "value": "mine"}, {"name": "B", "value": "<$(P_token)>"}],
            "args": ["$(B)", "$(C)"],
        }
    )
    assert env_of(pod) == {"P_token": "mine", "B": "<mine>"}
    assert argv(pod.spec.containers[0], env_of(pod)) == ["run", "<mine>", "$(C)"]


def test_contents_change_in_one_step_and_links_follow(tmp_path):
    place = tmp_path / "v"
    volumes.write(place, {"a": (b"1", 0o644), "dir/b": (b"2", 0o600)})
    first = os.readlink(place / "..data")
    assert ((place / "a").read_bytes(), (place / "dir" / "b").read_bytes()) == (b"1", b"2")
    assert stat.S_IMODE((place / "dir" / "b").stat().st_mode) == 0o600
    volumes.write(place, {"a": (b"1", 0o644), "dir/b": (b"2", 0o600)})
    assert os.readlink(place / "..data") == first  # nothing changed, nothing is touched
    volumes.write(place, {"a": (b"3", 0o644)})
    assert (place / "a").read_bytes() == b"3"
    assert sorted(each.name for each in place.iterdir() if not each.name.startswith("..")) == ["a"]
    assert len([each for each in place.iterdir() if each.name.startswith("..") and each.is_dir()]) == 2  # and its link


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"configMap": {"name": "missing"}}, 'configmap "missing" not found'),
        ({"configMap": {"name": "settings", "items": [{"key": "x", "path": "x"}]}}, "non-existent key: x"),
        ({"secret": {"secretName": "keys", "items": [{"key": "token", "path": "../x"}]}}, "relative path"),
        ({"emptyDir": {"medium": "Memory"}}, "must be empty"),
        ({"nfs": {"server": "s"}}, "must be one of emptyDir"),
        ({"hostPath": {"path": "/no/such", "type": "Directory"}}, "does not exist"),
    ],
)
def test_a_volume_that_cannot_be_made_says_why(tmp_path, volume, words):
    with pytest.raises(Unresolved, match=words):
        volumes.set_up(a_pod(volumes=[{"name": "v", **volume}]), tmp_path, AROUND)


def test_a_projected_volume_is_its_sources_together(tmp_path):
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "colour", "path": "c"}]}},
        {"secret": {"name": "keys"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    pod = a_pod(volumes=[{"name": "v", "projected": {"sources": sources, "defaultMode": 0o400}}], labels={"a": 'x"y'})
    volumes.set_up(pod, tmp_path, AROUND)
    assert {each: (tmp_path / "v" / each).read_text() for each in ("c", "token", "labels")} == {
        "c": "blue",
        "token": "s3cret",
        "labels": 'a="x\\"y"',
    }
    assert stat.S_IMODE((tmp_path / "v" / "token").stat().st_mode) == 0o400


def test_mounts_name_their_volume_and_stay_inside_it(tmp_path):
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "../x"}]}
    pod = a_pod(mounted, volumes=[{"name": "v", "emptyDir": {}}])
    with pytest.raises(Unresolved, match="relative path without"):
        volumes.mounts(pod, pod.spec.containers[0], tmp_path, {})
    pod = a_pod({"volumeMounts": [{"name": "w", "mountPath": "/m"}]}, volumes=[{"name": "v", "emptyDir": {}}])
    with pytest.raises(Unresolved, match="no volume of this name"):
        volumes.mounts(pod, pod.spec.containers[0], tmp_path, {})


def test_a_path_inside_a_volume_is_made_and_never_leads_out_of_it(tmp_path):
    def source(sub_path, **volume):
        mounted = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": sub_path}]}
        pod = a_pod(mounted, volumes=[{"name": "v", **volume}])
        volumes.set_up(pod, tmp_path, AROUND)
        [mount] = volumes.mounts(pod, pod.spec.containers[0], tmp_path, {})
        return mount.source

    assert source("a/b", emptyDir={}) == str(tmp_path / "v" / "a" / "b")
    (tmp_path / "v" / "trap").symlink_to("/etc")
    with pytest.raises(Unresolved, match="leads out of its volume"):
        source("trap/passwd", emptyDir={})
    (tmp_path / "v" / "own").symlink_to("a")
    assert source("own/b", emptyDir={}) == str(tmp_path / "v" / "a" / "b")


def test_a_path_inside_a_volume_may_depend_on_the_environment(tmp_path):
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPathExpr": "logs/$(POD)"}]}
    pod = a_pod(mounted, volumes=[{"name": "v", "emptyDir": {}}])
    volumes.set_up(pod, tmp_path, AROUND)
    [mount] = volumes.mounts(pod, pod.spec.containers[0], tmp_path, {"POD": "p"})
    assert mount.source == str(tmp_path / "v" / "logs" / "p")


def test_one_file_of_a_config_map_can_be_mounted(tmp_path):
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "colour"}]}
    pod = a_pod(mounted, volumes=[{"name": "v", "configMap": {"name": "settings"}}])
    volumes.set_up(pod, tmp_path, AROUND)
    [mount] = volumes.mounts(pod, pod.spec.containers[0], tmp_path, {})
    with open(mount.source) as file:
        assert file.read() == "blue"


def test_removing_volumes_follows_no_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    inside = tmp_path / "pod"
    inside.mkdir()
    (inside / "trap").symlink_to(outside)
    volumes.tear_down(inside)
    assert (outside / "kept").exists()
    assert not inside.exists()
