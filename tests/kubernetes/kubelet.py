"""A real kubelet for tests, on a runtime that runs nothing (node.go): what it asked of the runtime is in runtime.log.

Needs root. It ends with the control plane that it joins.
"""

import json
import socket
import ssl
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes import pki
from tests.kubernetes.cluster import KUBECONFIG, ControlPlane

CONFIGURATION = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: {port}
healthzPort: 0
readOnlyPort: 0
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: false}}, x509: {{clientCAFile: {pki}/ca.crt}}}}
authorization: {{mode: AlwaysAllow}}
tlsCertFile: {pki}/{name}.crt
tlsPrivateKeyFile: {pki}/{name}.key
containerRuntimeEndpoint: unix://{directory}/cri.sock
podLogsDir: {directory}/pod-logs
cgroupDriver: cgroupfs
cgroupsPerQOS: {per_qos}
cgroupRoot: /{cgroup}
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
evictionHard: {{memory.available: 1Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
resolvConf: ""
syncFrequency: 1s
"""
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Kubelet:
    """`root` is its data directory (--root-dir), short enough for unix sockets in it.

    `cgroup`: the one in which its Pods have theirs, as they must to be resized; without one they have none.
    """

    plane: ControlPlane
    name: str
    directory: Path
    cgroup: str = ""

    @property
    def root(self) -> Path:
        return self.directory / "root"

    def asked(self) -> list[dict[str, Any]]:
        """The calls to the runtime, oldest first."""
        lines = (self.plane.directory / "runtime.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def restart(self) -> None:
        self.plane.processes["kubelet"].kill()
        self.plane.processes["kubelet"].wait()
        _start_kubelet(self)


def join(plane: ControlPlane, name: str, directory: Path, *, resizes: bool = False, more: str = "") -> Kubelet:
    """Returns when the node is Ready. `directory` is its own, and empty; `more` are lines of its configuration.

    `resizes`: its Pods get cgroups, of which there are none else (and kubelet 1.37.2 panics at the first resize).
    `leave_cgroups` removes them when the control plane has stopped.
    """
    kubelet = Kubelet(plane, name, directory, f"headrace-{directory.name}" if resizes else "")
    if resizes:
        _enter_cgroups(kubelet.cgroup)
    pki.load(plane.directory / "pki").issue(name, f"system:node:{name}", "system:nodes", server=True)
    place = plane.directory / "pki"
    (directory / "kubeconfig").write_text(KUBECONFIG.format(url=plane.url, pki=place, user=name))
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    per_qos = str(resizes).lower()
    text = CONFIGURATION.format(
        port=port, pki=place, name=name, directory=directory, per_qos=per_qos, cgroup=kubelet.cgroup
    )
    (directory / "config.yaml").write_text(text + more)
    plane.start("runtime", "idle-runtime", "-socket", f"{directory}/cri.sock")
    plane.wait_for("runtime", (directory / "cri.sock").is_socket)
    _start_kubelet(kubelet)
    return kubelet


def unmount(directory: Path) -> None:
    """What a kubelet that has ended leaves mounted on and below its directory."""
    mounted = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in reversed([each for each in mounted if each.is_relative_to(directory)]):
        subprocess.run(["umount", place], check=True)


def leave_cgroups(cgroup: str) -> None:
    """Removes what a kubelet that has ended leaves of its Pods' cgroups: nothing ever ran in them."""
    for hierarchy in (CGROUPS, *CGROUPS.iterdir()):
        for place in sorted((hierarchy / cgroup).glob("**/"), key=lambda each: len(each.parts), reverse=True):
            place.rmdir()


def _hierarchies() -> list[Path]:
    """Of version 1 one for each controller; of version 2 the one there is."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [each for each in CGROUPS.iterdir() if (each / "cgroup.procs").exists() and each.name != "unified"]


def _enter_cgroups(cgroup: str) -> None:
    """The kubelet wants its root to be there in each hierarchy, with CPUs to give on."""
    for hierarchy in _hierarchies():
        place = hierarchy / cgroup
        place.mkdir()
        for name in ("cpuset.cpus", "cpuset.mems"):
            if hierarchy != CGROUPS and (place / name).exists():
                (place / name).write_text((hierarchy / name).read_text())


def _start_kubelet(kubelet: Kubelet) -> None:
    directory, plane = kubelet.directory, kubelet.plane
    plane.start(
        "kubelet",
        "kubelet",
        *(f"--config={directory}/config.yaml", f"--kubeconfig={directory}/kubeconfig", f"--root-dir={kubelet.root}"),
        *(f"--cert-dir={directory}", f"--hostname-override={kubelet.name}"),
    )
    plane.wait_for("kubelet", lambda: _is_ready(plane, kubelet.name))


def _is_ready(plane: ControlPlane, name: str) -> bool:
    context = ssl.create_default_context(cafile=plane.pki("ca.crt"))
    context.load_cert_chain(plane.pki("admin.crt"), plane.pki("admin.key"))
    try:
        with urllib.request.urlopen(f"{plane.url}/api/v1/nodes/{name}", context=context, timeout=5) as answer:
            conditions = json.load(answer)["status"].get("conditions") or ()
    except OSError:
        return False
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
