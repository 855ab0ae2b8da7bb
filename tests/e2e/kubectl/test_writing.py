"""What kubectl changes: create, apply, patch, replace, edit, label, annotate, scale, delete."""

import json

import pytest

from headrace.api.kinds import CONFIG_MAP, POD, REPLICA_SET
from headrace.store.protocol import NotFound
from tests.apiserver.serving import Serving
from tests.e2e.kubectl.conftest import Kubectl
from tests.e2e.kubectl.manifests import OTHER, SETTINGS, SHOP, WEB, WIDGET, WIDGETS


async def test_create_makes_objects_and_refuses_what_is_wrong(kubectl: Kubectl) -> None:
    file = kubectl.file("cm.yaml", SETTINGS)
    assert await kubectl("create", "-f", file) == "configmap/settings created\n"
    assert "(AlreadyExists)" in await kubectl("create", "-f", file, code=1)
    unknown = kubectl.file("unknown.yaml", WEB.replace("image:", "imagine:"))
    assert 'unknown field "spec.containers[0].imagine"' in await kubectl("create", "-f", unknown, code=1)
    wrong = kubectl.file("wrong.yaml", WEB.replace("name: main", "name: MAIN"))
    told = await kubectl("create", "-f", wrong, code=1)
    assert 'The Pod "web" is invalid' in told
    assert 'spec.containers[0].name: Invalid value: "MAIN"' in told
    odd = kubectl.file("odd.yaml", WEB.replace("image:", "imagine: x\n    image:"))
    warned = await kubectl.run("create", "-f", odd, "--validate=warn")
    assert 'Warning: unknown field "spec.containers[0].imagine"' in warned.err
    generated = OTHER.replace("name: other", "generateName: made-")
    assert (await kubectl("create", "-f", "-", "-o", "name", stdin=generated)).startswith("configmap/made-")
    assert "(server dry run)" in await kubectl("create", "-f", "-", "--dry-run=server", stdin=OTHER)
    assert "(NotFound)" in await kubectl("get", "cm", "other", code=1)


@pytest.mark.parametrize(
    ("version", "kind"), [("v1", "Pdo"), ("v2", "Pod"), ("batch/v1", "Job")], ids=["mistyped", "version", "not served"]
)
async def test_a_kind_that_there_is_not_is_told_as_kubernetes_does(kubectl: Kubectl, version: str, kind: str) -> None:
    file = kubectl.file("odd.yaml", f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    told = await kubectl("apply", "-f", file, code=1)
    assert f'no matches for kind "{kind}" in version "{version}"' in told


async def test_apply_changes_only_what_the_file_changed(kubectl: Kubectl) -> None:
    file = kubectl.file("shop.yaml", SHOP)
    assert await kubectl("apply", "-f", file) == "deployment.apps/shop created\n"
    assert await kubectl("apply", "-f", file) == "deployment.apps/shop unchanged\n"
    await kubectl("annotate", "deploy", "shop", "team=a")
    kubectl.file(
        "shop.yaml", SHOP.replace("till:1", "till:2").replace("app: shop}}\n    spec", "app: shop, v: b}}\n    spec")
    )
    assert await kubectl("apply", "-f", file) == "deployment.apps/shop configured\n"
    found = json.loads(await kubectl("get", "deploy", "shop", "-o", "json"))
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "till:2"
    assert found["metadata"]["annotations"]["team"] == "a"
    kubectl.file("shop.yaml", SHOP.replace("  replicas: 2\n", ""))
    await kubectl("apply", "-f", file)
    found = json.loads(await kubectl("get", "deploy", "shop", "-o", "json"))
    assert found["spec"]["template"]["metadata"]["labels"] == {"app": "shop"}
    told = await kubectl.run("diff", "-f", kubectl.file("more.yaml", SHOP.replace("till:1", "till:9")))
    assert told.code == 1
    assert "till:9" in told.out


async def test_server_side_apply_says_that_it_is_not_there_yet(kubectl: Kubectl) -> None:
    told = await kubectl("apply", "--server-side", "-f", kubectl.file("cm.yaml", SETTINGS), code=1)
    assert "server-side apply is not served yet" in told


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param("strategic", {"data": {"size": "big"}}, id="a strategic merge patch"),
        pytest.param("merge", {"data": {"size": "big"}}, id="a merge patch"),
        pytest.param("json", [{"op": "add", "path": "/data/size", "value": "big"}], id="a JSON patch"),
    ],
)
async def test_patch_takes_three_documents(kubectl: Kubectl, kind: str, patch: object) -> None:
    await kubectl("create", "-f", kubectl.file("cm.yaml", SETTINGS))
    assert await kubectl("patch", "cm", "settings", f"--type={kind}", "-p", json.dumps(patch)) == (
        "configmap/settings patched\n"
    )
    found = json.loads(await kubectl("get", "cm", "settings", "-o", "json"))
    assert found["data"] == {"color": "blue", "size": "big"}


async def test_a_status_is_patched_through_its_subresource(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.file("web.yaml", WEB))
    status = json.dumps({"status": {"phase": "Running", "podIP": "10.0.0.1"}})
    await kubectl("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", status)
    assert await kubectl("get", "pod", "web", "-o", "jsonpath={.status.phase}") == "Running"
    await kubectl("patch", "pod", "web", "--type=merge", "-p", json.dumps({"status": {"phase": "Failed"}}))
    assert await kubectl("get", "pod", "web", "-o", "jsonpath={.status.phase}") == "Running"
    assert "phase: Running" in await kubectl("get", "pod", "web", "--subresource=status", "-o", "yaml")


async def test_resize_changes_what_is_desired_of_a_pod(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.file("web.yaml", WEB))
    larger = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "300m"}}}]}}
    await kubectl("patch", "pod", "web", "--subresource=resize", "-p", json.dumps(larger))
    assert await kubectl("get", "pod", "web", "-o", "jsonpath={.spec.containers[0].resources.limits.cpu}") == "300m"
    assert "is invalid" in await kubectl(
        "patch", "pod", "web", "-p", json.dumps(larger).replace("300m", "400m"), code=1
    )


async def test_replace_and_edit_put_whole_objects(kubectl: Kubectl) -> None:
    file = kubectl.file("cm.yaml", SETTINGS)
    await kubectl("create", "-f", file)
    kubectl.file("cm.yaml", SETTINGS.replace("blue", "red"))
    assert await kubectl("replace", "-f", file) == "configmap/settings replaced\n"
    assert await kubectl("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "red"
    editor = kubectl.file("editor.sh", '#!/bin/sh\nsed -i s/red/green/ "$1"\n')
    edited = await kubectl("edit", "cm", "settings", EDITOR=f"sh {editor}")
    assert edited == "configmap/settings edited\n"
    assert await kubectl("get", "cm", "settings", "-o", "jsonpath={.data.color}") == "green"
    stale = json.loads(await kubectl("get", "cm", "settings", "-o", "json"))
    await kubectl("label", "cm", "settings", "x=y")
    told = await kubectl("replace", "-f", kubectl.file("stale.json", json.dumps(stale)), code=1)
    assert "the object has been modified; please apply your changes to the latest version and try again" in told


async def test_labels_and_annotations_come_and_go(kubectl: Kubectl, server: Serving) -> None:
    await kubectl("create", "-f", kubectl.file("cm.yaml", SETTINGS))
    assert await kubectl("label", "cm", "settings", "stage=prod") == "configmap/settings labeled\n"
    assert "already has a value" in await kubectl("label", "cm", "settings", "stage=test", code=1)
    await kubectl("label", "cm", "settings", "stage=test", "tier-", "--overwrite")
    await kubectl("annotate", "cm", "settings", "note=hello")
    found = await server.store.get(CONFIG_MAP, "settings", "default")
    assert found["metadata"]["labels"] == {"app": "web", "stage": "test"}
    assert found["metadata"]["annotations"] == {"note": "hello"}


async def test_scale_sets_replicas_of_built_in_and_custom_kinds(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.file("all.yaml", "---".join([SHOP, WIDGETS])))
    assert await kubectl("scale", "deploy", "shop", "--replicas=5") == "deployment.apps/shop scaled\n"
    assert await kubectl("get", "deploy", "shop", "-o", "jsonpath={.spec.replicas}") == "5"
    assert "Expected replicas to be 2, was 5" in await kubectl(
        "scale", "deploy", "shop", "--replicas=1", "--current-replicas=2", code=1
    )
    await kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=5s")
    await kubectl("create", "-f", kubectl.file("widget.yaml", WIDGET))
    await kubectl("scale", "widget", "gear", "--replicas=7")
    assert await kubectl("get", "widget", "gear", "-o", "jsonpath={.spec.size}") == "7"


async def test_custom_kinds_behave_as_built_in_ones(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", kubectl.file("crd.yaml", WIDGETS))
    await kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=5s")
    file = kubectl.file("widget.yaml", WIDGET)
    assert await kubectl("apply", "-f", file) == "widget.example.com/gear created\n"
    assert await kubectl("apply", "-f", file) == "widget.example.com/gear unchanged\n"
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await kubectl("patch", "wd", "gear", "--subresource=status", "--type=merge", "-p", json.dumps(ready))
    lines = [line.split() for line in (await kubectl("get", "wd", "-o", "wide")).splitlines()]
    assert lines[0] == ["NAME", "SIZE", "READY", "AGE", "COLOR"]
    assert (lines[1][:3], lines[1][-1]) == (["gear", "3", "True"], "grey")
    assert "How many there are." in await kubectl("explain", "widget.spec.size")
    told = await kubectl("create", "-f", "-", stdin=WIDGET.replace("gear", "none").replace("3", "0"), code=1)
    assert "spec.size" in told
    assert "should be greater than or equal to 1" in told
    unknown = await kubectl("create", "-f", "-", stdin=WIDGET.replace("size: 3", "size: 3, ghost: 1"), code=1)
    assert 'unknown field "spec.ghost"' in unknown
    await kubectl("wait", "--for=condition=Ready", "widget/gear", "--timeout=5s")
    await kubectl("delete", "crd", "widgets.example.com")
    assert "the server could not find the requested resource" in await kubectl("get", "wd", code=1)


async def test_wait_returns_when_it_holds_and_fails_when_it_does_not(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", kubectl.file("web.yaml", WEB))
    told = await kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/web", "--timeout=1s", code=1)
    assert "timed out" in told
    waiting = await kubectl.start("wait", "--for=jsonpath={.status.phase}=Running", "pod/web", "--timeout=20s")
    await kubectl("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}')
    out, _ = await waiting.communicate()
    assert out == b"pod/web condition met\n"
    gone = await kubectl.start("wait", "--for=delete", "pod/web", "--timeout=20s")
    await kubectl("delete", "pod", "web", "--grace-period=0", "--force")
    assert await gone.wait() == 0


async def test_delete_takes_names_files_selectors_and_all(kubectl: Kubectl) -> None:
    file = kubectl.file("all.yaml", "---".join([SETTINGS, OTHER, WEB]))
    await kubectl("create", "-f", file)
    # Newer versions add where it was deleted from.
    assert (await kubectl("delete", "cm", "settings")).startswith('configmap "settings" deleted')
    assert "(NotFound)" in await kubectl("delete", "cm", "settings", code=1)
    assert await kubectl("delete", "cm", "settings", "--ignore-not-found") == ""
    assert (await kubectl("delete", "cm", "-l", "app=db")).startswith('configmap "other" deleted')
    assert (await kubectl("delete", "pods", "--all")).startswith('pod "web" deleted')
    await kubectl("create", "-f", file)
    assert len((await kubectl("delete", "-f", file)).splitlines()) == 3


@pytest.mark.parametrize(
    ("cascade", "finalizers"),
    [
        pytest.param("foreground", ["foregroundDeletion"], id="foreground waits for what it owns"),
        pytest.param("orphan", ["orphan"], id="orphan lets go of what it owns first"),
    ],
)
async def test_cascades_leave_their_finalizer_for_the_garbage_collector(
    kubectl: Kubectl, server: Serving, cascade: str, finalizers: list[str]
) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await server.store.create(REPLICA_SET, {"metadata": {"name": "rs"}, "spec": spec}, "default")
    await kubectl("delete", "rs", "rs", f"--cascade={cascade}", "--wait=false")
    found = await server.store.get(REPLICA_SET, "rs", "default")
    assert found["metadata"]["finalizers"] == finalizers


async def test_a_background_delete_ends_the_owner_at_once(kubectl: Kubectl, server: Serving) -> None:
    await kubectl("create", "-f", kubectl.file("shop.yaml", SHOP))
    await kubectl("delete", "deploy", "shop", "--cascade=background")
    assert "(NotFound)" in await kubectl("get", "deploy", "shop", code=1)


async def test_a_pod_without_a_node_goes_at_once_and_one_on_a_node_waits_for_its_agent(
    kubectl: Kubectl, server: Serving
) -> None:
    await kubectl("create", "-f", kubectl.file("web.yaml", WEB))
    await kubectl("delete", "pod", "web")
    with pytest.raises(NotFound):
        await server.store.get(POD, "web", "default")
    await kubectl("create", "-f", "-", stdin=WEB.replace("spec:", "spec:\n  nodeName: node-a"))
    await kubectl("delete", "pod", "web", "--wait=false")
    found = await server.store.get(POD, "web", "default")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await kubectl("get", "pod", "web", "--no-headers")).split()[2] == "Terminating"
