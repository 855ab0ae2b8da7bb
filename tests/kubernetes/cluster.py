"""A real Kubernetes control plane on loopback, in a directory of its own, for the tests marked `cluster`.

Its processes are the children of the test run and end with it, whatever ends it (a signal at the death of the parent).
"""

import ctypes
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.kubernetes import pki

READY_SECONDS = 120.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05
PR_SET_PDEATHSIG = 1
ALL = ("controller-manager", "scheduler")
LEAVE_LATE_LEASES = "8760h"  # nodes here have no kubelet that renews anything

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: tests
contexts: [{{name: tests, context: {{cluster: tests, user: tests}}}}]
clusters: [{{name: tests, cluster: {{server: "{url}", certificate-authority: "{pki}/ca.crt"}}}}]
users: [{{name: tests, user: {{client-certificate: "{pki}/{user}.crt", client-key: "{pki}/{user}.key"}}}}]
"""


class DidNotStart(Exception):
    """Which program, and the end of its log."""


@dataclass
class ControlPlane:
    """Runs: `kubeconfig` is the administrator's, `programs` the folder with kubectl beside the servers."""

    directory: Path
    programs: Path
    url: str
    etcd_port: int
    ports: dict[str, int]
    default_rates: bool = False
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def pki(self, name: str) -> str:
        return str(self.directory / "pki" / name)

    def start(self, name: str, program: str, *arguments: str) -> None:
        log = (self.directory / f"{name}.log").open("wb")
        with log:
            self.processes[name] = subprocess.Popen(
                [self.programs / program, *arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def wait_for(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not ready():
            ended = self.processes[name].poll() is not None
            if ended or time.monotonic() > deadline:
                text = (self.directory / f"{name}.log").read_text(errors="replace")
                why = "ended" if ended else f"is not ready after {READY_SECONDS:.0f} s"
                raise DidNotStart(f"{name} {why}:\n{text[-2000:]}")
            time.sleep(POLL_SECONDS)

    def answers(self, url: str) -> bool:
        """Whether a GET with the administrator's certificate is answered with 200."""
        context = ssl.create_default_context(cafile=self.pki("ca.crt"))
        context.load_cert_chain(self.pki("admin.crt"), self.pki("admin.key"))
        try:
            with urllib.request.urlopen(url, context=context, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """Ends every process, the last started first."""
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def control_plane(
    directory: Path, programs: Path, also: tuple[str, ...] = (), *, durable: bool = False, default_rates: bool = False
) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, and `also` of ALL: without them no controller changes what a test has written.

    `durable`: etcd syncs to disk, which no test needs and every comparison of speed does. `default_rates`: the
    controllers may call as often as by default (50 and 20 times a second), which only a comparison wants.
    """
    etcd, api, peer, *rest = _free_ports(3 + len(ALL))
    plane = ControlPlane(
        directory, programs, f"https://127.0.0.1:{api}", etcd, dict(zip(ALL, rest, strict=True)), default_rates
    )
    _credentials(plane)
    try:
        _start_etcd(plane, peer, durable)
        _start_api_server(plane, api)
        if "controller-manager" in also:
            _start_controller_manager(plane)
        if "scheduler" in also:
            _start_scheduler(plane)
        yield plane
    finally:
        plane.stop()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # the parent died before that took hold
        os._exit(1)


def _free_ports(count: int) -> list[int]:
    """Different ones: all are held open together while they are chosen."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def _credentials(plane: ControlPlane) -> None:
    directory = plane.directory / "pki"
    directory.mkdir(mode=0o700)
    authority = pki.create(directory)
    authority.issue("apiserver", "kube-apiserver", server=True)
    pki.signing_key(directory, "accounts")
    users = {
        "admin": ("tests-admin", "system:masters"),
        "controller-manager": ("system:kube-controller-manager",),
        "scheduler": ("system:kube-scheduler",),
    }
    for file, (user, *groups) in users.items():
        authority.issue(file, user, *groups)
        name = "kubeconfig" if file == "admin" else f"{file}.kubeconfig"
        (plane.directory / name).write_text(KUBECONFIG.format(url=plane.url, pki=directory, user=file))


def _start_etcd(plane: ControlPlane, peer_port: int, durable: bool) -> None:
    url, peer = f"http://127.0.0.1:{plane.etcd_port}", f"http://127.0.0.1:{peer_port}"
    plane.start(
        "etcd",
        "etcd",
        *("--name=tests", f"--data-dir={plane.directory}/etcd", "--log-level=warn"),
        *(() if durable else ("--unsafe-no-fsync",)),  # nothing here outlives a test
        *(f"--listen-client-urls={url}", f"--advertise-client-urls={url}"),
        *(f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=tests={peer}"),
    )


def _start_api_server(plane: ControlPlane, port: int) -> None:
    plane.start(
        "apiserver",
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{plane.etcd_port}",
        *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={port}"),
        *(f"--tls-cert-file={plane.pki('apiserver.crt')}", f"--tls-private-key-file={plane.pki('apiserver.key')}"),
        f"--client-ca-file={plane.pki('ca.crt')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={plane.pki('accounts.pub')}",
        f"--service-account-signing-key-file={plane.pki('accounts.key')}",
        "--service-cluster-ip-range=10.96.0.0/16",
        *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"),
        *("--endpoint-reconciler-type=none", "--shutdown-delay-duration=0s", "--profiling=false"),
    )
    plane.wait_for("apiserver", lambda: plane.answers(f"{plane.url}/readyz"))


def _shared_flags(plane: ControlPlane, name: str) -> tuple[str, ...]:
    kubeconfig = f"{plane.directory}/{name}.kubeconfig"
    return (
        *(f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}"),
        *(f"--authorization-kubeconfig={kubeconfig}", "--bind-address=127.0.0.1"),
        f"--secure-port={plane.ports[name]}",
        *(f"--tls-cert-file={plane.pki('apiserver.crt')}", f"--tls-private-key-file={plane.pki('apiserver.key')}"),
        *(() if plane.default_rates else ("--kube-api-qps=1000", "--kube-api-burst=2000")),
        *("--leader-elect=false", "--profiling=false"),
    )


def _start_controller_manager(plane: ControlPlane) -> None:
    plane.start(
        "controller-manager",
        "kube-controller-manager",
        *_shared_flags(plane, "controller-manager"),
        "--use-service-account-credentials=true",
        f"--root-ca-file={plane.pki('ca.crt')}",
        f"--service-account-private-key-file={plane.pki('accounts.key')}",
        f"--node-monitor-grace-period={LEAVE_LATE_LEASES}",
    )
    # No Pod is admitted before its namespace has an account, so this is the end of the start.
    account = f"{plane.url}/api/v1/namespaces/default/serviceaccounts/default"
    plane.wait_for("controller-manager", lambda: plane.answers(account))


def _start_scheduler(plane: ControlPlane) -> None:
    plane.start("scheduler", "kube-scheduler", *_shared_flags(plane, "scheduler"))
    plane.wait_for("scheduler", lambda: plane.answers(f"https://127.0.0.1:{plane.ports['scheduler']}/healthz"))
