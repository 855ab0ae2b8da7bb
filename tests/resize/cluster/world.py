"""A real control plane with a real kubelet, and `headrace controllers` on it: a process with the rights it is given."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.api.amounts import read
from tests.kubernetes.cluster import ALL, ControlPlane, control_plane
from tests.kubernetes.kubelet import Kubelet, join, leave_cgroups, unmount
from tests.kubernetes.metrics_api import Usages
from tests.kubernetes.test_cluster import kubectl

WAIT_SECONDS = 90.0
MI = 1024**2
# With exclusive CPUs the kubelet calls a change of a Guaranteed Pod's CPU Infeasible; all else it resizes.
STATIC_CPUS = "cpuManagerPolicy: static\nkubeReserved: {cpu: 200m}\n"
TOKEN = """\
apiVersion: v1
kind: Config
current-context: tests
contexts: [{{name: tests, context: {{cluster: tests, user: controllers}}}}]
clusters: [{{name: tests, cluster: {{server: "{url}", certificate-authority: "{ca}"}}}}]
users: [{{name: controllers, user: {{token: "{token}"}}}}]
"""


@dataclass
class World:
    """One node. `log` is what the controllers have said."""

    plane: ControlPlane
    kubelet: Kubelet
    log: Path
    usages: Usages = field(default_factory=Usages)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return kubectl(self.plane, *arguments, stdin=stdin)

    def get(self, *what: str) -> Any:
        return json.loads(self.kubectl("get", *what, "-o", "json"))

    def create(self, namespace: str, *objects: Mapping[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("-n", namespace, "create", "-f", "-", stdin=text)

    def until(self, what: str, look: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := look()):
            if time.monotonic() > deadline:
                told = self.kubectl("get", "resizepolicies,resourcescalingactions,pods", "-A", "-o", "yaml")[-6000:]
                raise AssertionError(f"{what}: not so\n{told}\n{self.log.read_text()[-3000:]}")
            time.sleep(0.1)
        return found

    def runs(self, namespace: str, *names: str) -> None:
        for name in names:
            self.kubectl("-n", namespace, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")

    def uses(self, workload: str, cores: float, mebibytes: int) -> None:
        self.usages.used[workload] = (cores, mebibytes * MI)

    def limits(self, namespace: str, name: str, container: str = "app") -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Desired and actual."""
        pod = self.get("-n", namespace, "pod", name)
        return desired(pod, container), actual(pod, container)

    def actions(self, namespace: str, state: str = "") -> list[dict[str, Any]]:
        found = self.get("-n", namespace, "resourcescalingactions")["items"]
        found.sort(key=lambda each: each["metadata"]["creationTimestamp"])
        return [each for each in found if state in ("", (each.get("status") or {}).get("state"))]

    def condition(self, namespace: str, type: str, name: str = "policy") -> tuple[str, str]:
        """(status, message)."""
        policy = self.get("-n", namespace, "resizepolicy", name)
        found = [each for each in (policy.get("status") or {}).get("conditions") or () if each["type"] == type]
        return (found[0]["status"], found[0]["message"]) if found else ("", "")


def desired(pod: Mapping[str, Any], container: str = "app") -> Mapping[str, int]:
    [found] = [each for each in pod["spec"]["containers"] if each["name"] == container]
    return read(found["resources"]["limits"])


def actual(pod: Mapping[str, Any], container: str = "app") -> Mapping[str, int]:
    [found] = [each for each in pod["status"]["containerStatuses"] if each["name"] == container]
    return read(found["resources"]["limits"])


@contextmanager
def world(directory: Path, programs: Path) -> Iterator[World]:
    """Without controllers; nothing measures usage yet."""
    with tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp") as short:
        place = Path(short)
        try:
            with control_plane(directory, programs, ALL) as plane:
                kubelet = join(plane, "node-a", place, resizes=True, more=STATIC_CPUS)
                yield World(plane, kubelet, directory / "controllers.log")
        finally:
            unmount(place)
            leave_cgroups(f"headrace-{place.name}")


def rights(here: World) -> Path:
    """Installs what `headrace manifests` prints; a kubeconfig of the account that it makes."""
    printed = subprocess.run(
        [sys.executable, "-m", "headrace.cli", "manifests"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    here.kubectl("apply", "--server-side", "-f", "-", stdin=printed)
    token = here.kubectl("-n", "kube-system", "create", "token", "headrace-controllers", "--duration=2h").strip()
    file = here.plane.directory / "controllers.kubeconfig"
    file.write_text(TOKEN.format(url=here.plane.url, ca=here.plane.pki("ca.crt"), token=token))
    return file


@contextmanager
def controllers(here: World, kubeconfig: Path, *options: str) -> Iterator[None]:
    """`headrace controllers` as people run it."""
    with here.log.open("ab") as output:
        command = (sys.executable, "-m", "headrace.cli", "controllers", "--kubeconfig", str(kubeconfig))
        process = subprocess.Popen(
            [*command, "--sample-seconds", "0.3", *options],
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        yield
        assert process.poll() is None, here.log.read_text()[-3000:]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def template(
    cpu: str, memory: str, request_memory: str = "", *, more: tuple[Mapping[str, Any], ...] = ()
) -> dict[str, Any]:
    """Labels and spec of a Pod. A smaller request of memory makes it Burstable."""
    limits = {"cpu": cpu, "memory": memory}
    requests = {**limits, "memory": request_memory or memory}
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "initContainers": list(more),
            "containers": [
                {"name": "app", "image": "app:1", "resources": {"limits": limits, "requests": requests}},
            ],
        },
    }


def pod(name: str, *amounts: str, labels: Mapping[str, str] | None = None, **options: Any) -> dict[str, Any]:
    made = template(*amounts, **options)
    metadata = {"name": name, "labels": dict(labels or {"app": "web"})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}


def deployment(*amounts: str) -> dict[str, Any]:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template(*amounts)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def policy(**spec: Any) -> dict[str, Any]:
    """Acts on the second sample that is beyond the threshold."""
    triggers = [
        {"metric": name, "up": {"above": "80%"}, "samples": {"matching": 1, "of": 1}} for name in ("cpu", "memory")
    ]
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "ResizePolicy",
        "metadata": {"name": "policy"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "triggers": triggers, **spec},
    }
