"""Images of a registry that wants to know who asks: pulled with the secrets that a Pod or its account names."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.api.kinds import EVENT, POD, SECRET, SERVICE_ACCOUNT
from tests.node.agent.home import container, create, is_gone, is_phase, is_running, pod, state, until
from tests.node.runtimes.podman_service import Service, missing, root_file_system, serving
from tests.node.runtimes.stub_registry import Registry, serving_image
from tests.node.runtimes.test_podman_agent import at_home

pytestmark = [pytest.mark.podman, pytest.mark.xdist_group("podman")]
PASSWORD = "never-to-be-told"


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with serving_image(root_file_system(), "robot", PASSWORD) as running:
        yield running


@pytest.fixture(scope="module")
def service(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    if why := missing():
        pytest.fail(why)
    conf = tmp_path_factory.mktemp("conf") / "registries.conf"
    conf.write_text(f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_REGISTRIES_CONF", str(conf))
        with serving() as running:
            yield running


@pytest.fixture
def absent(service: Service, registry: Registry) -> Iterator[None]:
    """The image is not there yet, and nobody has asked for it."""
    registry.seen.clear()
    yield
    service.podman("rmi", "--force", "--ignore", f"{registry.repository}:1")


def secret(name: str, location: str, username: str, password: str) -> dict[str, Any]:
    auth = base64.b64encode(f"{username}:{password}".encode()).decode()
    content = json.dumps({"auths": {location: {"auth": auth}}}).encode()
    data = {".dockerconfigjson": base64.b64encode(content).decode()}
    meta = {"name": name, "namespace": "default"}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
    return {**kind, "metadata": meta, "data": data}


def main(registry: Registry, **fields: Any) -> dict[str, Any]:
    return container("main", image=f"{registry.repository}:1", command=["sleep", "600"], **fields)


def running(registry: Registry, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = pod(containers=[main(registry)], terminationGracePeriodSeconds=1, **spec)
    return found


def waits_for_the_image(told: Any) -> bool:
    kind, found = state(told)
    return kind == "waiting" and found.get("reason") in ("ErrImagePull", "ImagePullBackOff")


def holds(directory: Path, text: str) -> bool:
    """Whether any file there has it."""
    return any(text.encode() in each.read_bytes() for each in directory.rglob("*") if each.is_file())


async def everything_told(store: Any) -> str:
    """Events and Pods, as anybody may read them."""
    return json.dumps([(await store.list(kind)).items for kind in (EVENT, POD)])


@pytest.mark.usefixtures("absent")
async def test_a_pod_with_a_pull_secret_runs_and_one_without_does_not(
    service: Service, registry: Registry, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with at_home(service, tmp_path) as (store, _):
        # The first knows somebody else at a place that is more special: it is tried first, and is not enough.
        await store.create(SECRET, secret("old", registry.repository, "former", "out-of-date"))
        await store.create(SECRET, secret("new", registry.host, "robot", PASSWORD))
        await create(store, running(registry, name="bare"))
        await until(store, waits_for_the_image, "bare")
        assert registry.seen
        assert set(registry.seen) == {""}
        secrets = [{"name": name} for name in ("old", "absent", "new")]
        await create(store, running(registry, imagePullSecrets=secrets))
        await until(store, is_running)
        tried = [name for at, name in enumerate(registry.seen) if name and name not in registry.seen[:at]]
        assert tried == ["former", "robot"]
        said = await everything_told(store)
        assert "Unable to retrieve some image pull secrets (absent)" in said
    log = capfd.readouterr()
    service_log = (service.directory / "service.log").read_text()
    for hidden in (PASSWORD, "out-of-date", base64.b64encode(f"robot:{PASSWORD}".encode()).decode()):
        assert hidden not in f"{said}{log.out}{log.err}{service_log}"
    assert not holds(tmp_path, PASSWORD)


@pytest.mark.usefixtures("absent")
async def test_the_secrets_of_its_account_are_a_pods_own_and_a_present_image_is_not_pulled_again(
    service: Service, registry: Registry, tmp_path: Path
) -> None:
    async with at_home(service, tmp_path) as (store, _):
        await store.create(SECRET, secret("regcred", f"http://{registry.host}/v2/", "robot", PASSWORD))
        meta = {"name": "puller", "namespace": "default"}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
        await store.create(SERVICE_ACCOUNT, {**account, "imagePullSecrets": [{"name": "regcred"}]})
        await create(store, running(registry, serviceAccountName="puller"))
        told = await until(store, is_running)
        assert told["spec"]["imagePullSecrets"] == [{"name": "regcred"}]
        await store.delete(POD, "p", "default")
        await until(store, is_gone)
        asked = len(registry.seen)
        once = pod(containers=[main(registry) | {"command": ["true"]}], restartPolicy="Never")
        await create(store, once)  # IfNotPresent: the image is there
        await until(store, is_phase("Succeeded"))
        assert len(registry.seen) == asked
        await store.delete(POD, "p", "default")
        await until(store, is_gone)
        always = main(registry, imagePullPolicy="Always") | {"command": ["true"]}
        await create(store, pod(containers=[always], restartPolicy="Never"))  # asks, and may not
        await until(store, waits_for_the_image)
        assert len(registry.seen) > asked


@pytest.mark.usefixtures("absent")
async def test_a_secret_that_cannot_be_read_is_told_by_name(
    service: Service, registry: Registry, tmp_path: Path
) -> None:
    async with at_home(service, tmp_path) as (store, _):
        broken = secret("broken", registry.host, "robot", PASSWORD)
        content = json.dumps({"auths": {registry.host: {"auth": PASSWORD}}}).encode()
        broken["data"] = {".dockerconfigjson": base64.b64encode(content).decode()}
        await store.create(SECRET, broken)
        await create(store, pod(containers=[main(registry)], imagePullSecrets=[{"name": "broken"}]))
        await until(store, waits_for_the_image)
        said = await everything_told(store)
        assert "auth must be base64 of USERNAME:PASSWORD" in said
        assert PASSWORD not in said
        assert registry.seen == []
