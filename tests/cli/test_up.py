"""`headrace up` as a user meets it: what cannot work is said before anything starts, and stale files claim nothing."""

import errno
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.apiserver import pki
from headrace.cli import up
from headrace.cli.main import main, root
from headrace.devices.driver import sockets
from headrace.node.certificate import Credentials
from headrace.node.runtimes.choice import RECORD
from headrace.node.signing import signing_request
from headrace.serve.announcement import Announced, announced, announcing, is_alive


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--cpus", "9999"), "--cpus 9999: this machine has", id="more CPUs than the machine has"),
        pytest.param(("--memory", "1e9999999"), "exponent 9999999", id="an exponent beyond all bounds"),
        pytest.param(("--memory", "9999Ti"), "this machine has", id="more memory than the machine has"),
        pytest.param(("--cpus", "1", "--system-reserved", "cpu=5"), "cpu=5: nothing of 1", id="all CPUs reserved"),
        pytest.param(("--system-reserved", "cpu=-1"), "must not be negative", id="a negative reserve"),
        pytest.param(("--system-reserved", "cpu=NaN"), "--system-reserved cpu=NaN", id="no number"),
        pytest.param(("--system-reserved", "gpu=1"), "must be cpu=AMOUNT or memory=AMOUNT", id="an unknown resource"),
        pytest.param(("--node-name", "Bad Name"), "lowercase RFC 1123 subdomain", id="no name of a node"),
        pytest.param(("--port", "99999"), "99999 is not in the range", id="no port"),
        pytest.param(("--sync-seconds", "0"), "0.0 is not in the range 1<=x<=3600", id="a sync period of nothing"),
        pytest.param(("--sample-seconds", "nan"), "nan is not in the range 0.1<=x<=60", id="no number of seconds"),
        pytest.param(("--agents-port", "-5"), "-5 is not in the range", id="a negative port"),
        pytest.param(("--memory", "lots"), "must be an amount such as 8Gi", id="no amount of memory"),
        pytest.param(
            ("--runtime", "podman", "--podman-socket", "/nowhere/podman.sock"),
            "podman socket /nowhere/podman.sock: No such file or directory; start it",
            id="Podman that is not there",
        ),
    ],
)
@pytest.mark.parametrize("detach", [(), ("--detach",)], ids=["in the foreground", "detached"])
def test_what_cannot_work_is_said_before_a_server_starts(tmp_path, options, words, detach):
    told = CliRunner().invoke(root, ["up", *detach, "--data-dir", str(tmp_path / "data"), *options])
    assert told.exit_code == 2, told.output
    assert words in told.output
    assert not (tmp_path / "data").exists()


def certificate_of(node: str, directory: Path) -> None:
    now = time.time()
    authority = pki.ensure(directory.parents[1] / "pki", now)
    credentials = Credentials(directory)
    request = signing_request(credentials.key, node).encode()
    signed = pki.sign_request(authority, request, now, f"system:node:{node}", ("system:nodes",))
    credentials.store(signed.decode(), authority.ca_pem().decode())


def test_a_directory_of_another_node_is_told_before_a_server_starts(tmp_path):
    """It said "it has not registered after 60 s", and left a server running."""
    certificate_of("node-a", tmp_path / "agent" / "pki")
    told = CliRunner().invoke(root, ["up", "--detach", "--data-dir", str(tmp_path), "--node-name", "node-b"])
    assert told.exit_code == 2, told.output
    assert f"--node-name node-b: {tmp_path / 'agent'} belongs to node node-a" in told.output


@pytest.mark.parametrize("options", [("--simulated-devices", "plain"), ("--host-devices",)], ids=lambda each: each[0])
def test_a_directory_too_long_for_the_drivers_sockets_is_told_before_a_server_starts(tmp_path, options):
    """The driver could not bind its socket, was started again and again, and no device ever came."""
    directory = tmp_path / ("d" * 100)
    told = CliRunner().invoke(root, ["up", "--data-dir", str(directory), *options])
    assert told.exit_code == 2, told.output
    words = " ".join(told.output.split())
    assert "--data-dir is too long for device driver" in words
    assert "bytes long, a unix socket's path has at most 107; choose a shorter directory" in words
    assert not directory.exists()


def test_a_driver_says_so_too(tmp_path):
    arguments = ["gpu.example.com", "--server", "https://127.0.0.1:1", "--data-dir", str(tmp_path / ("d" * 100))]
    told = CliRunner().invoke(root, ["driver", *arguments])
    assert told.exit_code == 2, told.output
    assert "--data-dir is too long for device driver gpu.example.com" in told.output


@pytest.mark.parametrize(("length", "refused"), [(107, False), (108, True)])
def test_the_longest_path_of_a_socket_has_107_bytes(length, refused):
    below = len(str(sockets.registry_of(Path("/"), "gpu.example.com"))) - 1
    directory = Path("/" + "d" * (length - below - 2))
    assert len(str(sockets.registry_of(directory, "gpu.example.com"))) == length
    assert bool(sockets.refusal(directory, "gpu.example.com")) == refused


def test_a_directory_that_cannot_be_made_is_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["up", "--detach", "--data-dir", "/proc/nowhere"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "Error: [Errno 2] No such file or directory: '/proc/nowhere'\n"


def test_a_file_of_a_server_that_died_does_not_make_down_end_whoever_has_its_pid_now(tmp_path):
    told = Announced(os.getpid(), "https://127.0.0.1:1", 2, Path("kubeconfig"))
    with announcing(tmp_path, told):
        assert announced(tmp_path) == told
        kept = (tmp_path / "up.json").read_text()
    assert announced(tmp_path) is None
    (tmp_path / "up.json").write_text(json.dumps({**json.loads(kept), "started": "1"}))
    assert announced(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"pid": "x"}', '{"pid": 0, "started": "0"}'])
def test_a_damaged_file_claims_nothing(tmp_path, text):
    (tmp_path / "up.json").write_text(text)
    assert announced(tmp_path) is None


def test_a_killed_server_whose_parent_never_waits_for_it_keeps_nobody_from_starting(tmp_path):
    """In a container whose first process reaps no orphans, `up` said for ever that headrace runs already."""
    dead = subprocess.Popen(["sleep", "100"])
    with announcing(tmp_path, Announced(dead.pid, "https://127.0.0.1:1", 2, Path("kubeconfig"))):
        assert announced(tmp_path) is not None
        dead.kill()
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)  # dead, and left as it is
        assert announced(tmp_path) is None
        assert not is_alive(dead.pid)
    dead.wait()


def test_of_another_users_directory_status_does_not_say_that_nothing_runs(tmp_path, monkeypatch, capsys):
    def denied(self):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_text", denied)
    with pytest.raises(SystemExit) as ended:
        main(["status", "--data-dir", str(tmp_path)])
    assert ended.value.code == 1
    assert "up.json: Permission denied: run this as the user whose it is" in capsys.readouterr().err


def test_down_says_that_containers_may_run_on_when_podman_is_not_there(tmp_path: Path) -> None:
    """(It ended in a traceback.)"""
    (tmp_path / "runtime").write_text(f"podman {tmp_path}/podman.sock\n")
    told = CliRunner().invoke(root, ["down", "--data-dir", str(tmp_path)])
    assert told.exit_code == 1
    assert "headrace is down, but its containers were not ended, and may run: --runtime podman: podman socket" in (
        told.output
    )
    assert "Traceback" not in told.output


def test_a_keeper_that_cannot_be_reached_is_told_by_down(tmp_path):
    agent = tmp_path / "agent"
    agent.mkdir()
    (agent / "keeper").write_text("no directory")
    (agent / RECORD).write_text("process\n")
    told = CliRunner().invoke(root, ["down", "--data-dir", str(tmp_path)])
    assert told.exit_code == 1
    assert "its containers were not ended, and may run" in told.output
    assert isinstance(told.exception, SystemExit)


def test_what_a_start_waits_for_is_told_once_with_what_has_ended_meanwhile(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(up, "SILENT_SECONDS", 0.0)
    log = tmp_path / "headrace.log"
    log.write_text("Error: of an earlier run\n")
    waiting = up._teller(log, log.stat().st_size)
    for _ in range(3):
        waiting("node a: it has not registered")
    with log.open("a") as more:
        more.write("Error: no keeper\n")
    waiting("node a: it has not registered")
    assert capsys.readouterr().err.splitlines() == [
        "waiting: node a: it has not registered",
        "waiting: node a: it has not registered: no keeper",
    ]
