"""A real `headrace server` for fault tests: under strace, with another clock, on a small disk; killed and looked at."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from headrace.client.kubeconfig import load

COMMAND = ("server", "--port", "0", "--agents-port", "0")
READY_SECONDS = 60.0
LOOK_SECONDS = 0.01
ANSWER_SECONDS = 20.0


def wait_for(what: str, look: Callable[[], Any], seconds: float = READY_SECONDS) -> Any:
    """The first answer of `look` that is not empty."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(LOOK_SECONDS)
    return found


def failing_sync(nth: int) -> tuple[str, ...]:
    """A prefix: from the n-th on, every sync of a thread fails with EIO."""
    return (
        *("strace", "-f", "-qq", "-o", "/dev/null"),
        *("-e", "trace=fdatasync", "-e", f"inject=fdatasync:error=EIO:when={nth}+"),
    )


@dataclass(slots=True)
class Server:
    """`start` may be called again after each death; its `prefix` runs it (strace). `environment` adds to ours."""

    directory: Path
    command: tuple[str, ...] = COMMAND
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    url: str = ""
    pid: int = 0
    tracers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.directory / "headrace.db"

    @property
    def log_path(self) -> Path:
        return self.directory.with_name(self.directory.name + ".log")

    def launch(self, *prefix: str, **environment: str) -> float:
        """Begin to start it; the moment at which that was."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "up.json").unlink(missing_ok=True)
        with self.log_path.open("ab") as log:
            began = time.monotonic()
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "headrace.cli", *self.command, "--data-dir", str(self.directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.environment, **environment},
            )
        return began

    def start(self, *prefix: str, **environment: str) -> float:
        """Seconds until it serves. Raises Died when it ended before."""
        began = self.launch(*prefix, **environment)
        self.wait_until_ready()
        return time.monotonic() - began

    def wait_until_ready(self) -> None:
        wait_for("the server serves", self._announced)

    def _announced(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise Died(self.process.returncode, self.log())
        try:
            state = json.loads((self.directory / "up.json").read_text())
        except (OSError, ValueError):
            return False
        self.pid, self.url = int(state["pid"]), str(state["url"])
        return True

    def trace(self, *command: str) -> None:
        """From now on under this strace, all threads of it."""
        tracer = subprocess.Popen([*command, "-p", str(self.pid)], stdin=subprocess.DEVNULL, start_new_session=True)
        self.tracers.append(tracer)
        wait_for("strace attaches", lambda: self._is_traced() or tracer.poll() is not None, 10)

    def _is_traced(self) -> bool:
        tasks = Path(f"/proc/{self.pid}/task")
        return all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks.iterdir())

    def kill(self) -> None:
        """As a power cut would, with what runs it: no goodbye."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait_for_death()

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.pid or self.process.pid, signal.SIGTERM)
        return self.wait_for_death()

    def wait_for_death(self, seconds: float = 30.0) -> int:
        """The exit code; whoever traced it ends with it."""
        assert self.process is not None
        code = self.process.wait(timeout=seconds)
        while self.tracers:
            self.tracers.pop().wait(timeout=seconds)
        return code

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def caller(self, *, token: str = "", kubeconfig: str = "kubeconfig") -> "Caller":
        cluster = load(self.directory / kubeconfig)
        context = ssl.create_default_context(cadata=cluster.ca_pem) if token else cluster.tls()
        return Caller(self.url, context, token)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`headrace …` against this server, in the plain environment."""
        return subprocess.run(
            [sys.executable, "-m", "headrace.cli", *arguments, "--data-dir", str(self.directory)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


class Died(Exception):
    """The server ended before it served; with its exit code and log."""

    def __init__(self, code: int, log: str) -> None:
        super().__init__(f"exit code {code}:\n{log[-2000:]}")
        self.code = code


class Caller:
    """One connection, as blunt as can be: no retries, so that every answer and every missing one is seen."""

    def __init__(self, url: str, context: ssl.SSLContext, token: str = "") -> None:
        self._address = urlparse(url)
        self._context = context
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection: http.client.HTTPSConnection | None = None

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """Code and decoded body. Raises OSError, HTTPException when no answer came: what became of it is unknown."""
        try:
            data = None if body is None else json.dumps(body)
            connection = self._connected()
            connection.request(method, path, data, {"Content-Type": content_type, **self._headers})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else {}
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def open(self, path: str) -> http.client.HTTPResponse:
        """A stream, to be read by the caller."""
        connection = self._connected()
        connection.request("GET", path, headers=self._headers)
        return connection.getresponse()

    def _connected(self) -> http.client.HTTPSConnection:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                str(self._address.hostname), self._address.port, context=self._context, timeout=ANSWER_SECONDS
            )
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextlib.contextmanager
def directory_of_server(directory: Path, **more: Any) -> Iterator[Server]:
    """Nothing of it is left afterwards."""
    server = Server(directory, **more)
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def small_file_system(directory: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own; the test is skipped where none can be mounted."""
    where = directory / "small"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(where)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system takes root")
    yield where
    subprocess.run(["umount", "-l", where], check=True)
