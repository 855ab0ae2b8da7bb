"""Real headrace processes for end-to-end tests: each in a directory and on ports of its own, gone afterwards."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WAIT_SECONDS = 40.0
LOOK_SECONDS = 0.05


def wait_for(what: str, look: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
    """The first answer of `look` that is not empty."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(LOOK_SECONDS)
    return found


@dataclass(slots=True)
class Headrace:
    """One `headrace up` or `headrace server` and its command line."""

    directory: Path
    command: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "test.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace.cli", *self.command, "--data-dir", str(self.directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        pid = self.process.pid
        wait_for(f"{self.command[0]} serves", lambda: self._announced_by(pid))

    def _announced_by(self, pid: int) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            return bool(json.loads((self.directory / "up.json").read_text())["pid"] == pid)
        except (OSError, ValueError):
            return False

    def kill(self) -> None:
        """As a power cut would: no goodbye. Its children are left as they are."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=30)

    def log(self) -> str:
        return (self.directory / "test.log").read_text(errors="replace")

    def run(self, *arguments: str, code: int = 0, text: str = "") -> str:
        """`headrace …` against this server."""
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli", *arguments, "--data-dir", str(self.directory)],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, (
            f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.log()[-3000:]}"
        )
        return done.stdout + done.stderr

    def kubectl(self, *arguments: str, code: int = 0, text: str = "") -> str:
        environment = {**os.environ, "HOME": str(self.directory), "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            [os.environ.get("HEADRACE_KUBECTL", "kubectl"), *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
            check=False,
        )
        assert done.returncode == code, (
            f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.log()[-3000:]}"
        )
        return done.stdout + done.stderr

    def _told(self, arguments: tuple[str, ...], done: subprocess.CompletedProcess[str]) -> str:
        return f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.log()[-3000:]}"

    def object(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("get", kind, name, "-o", "json"))
        return found

    def down(self) -> None:
        """Everything ends: server, agent, containers, keeper."""
        with contextlib.suppress(Exception):
            self.stop()
        subprocess.run(
            [*(sys.executable, "-m", "headrace.cli", "down", "--data-dir", str(self.directory), "--grace-period", "1")],
            capture_output=True,
            check=False,
            timeout=60,
        )


@contextlib.contextmanager
def headrace(directory: Path, *command: str) -> Iterator[Headrace]:
    """Runs while the body runs; `directory` is removed with it."""
    running = Headrace(directory, command)
    try:
        running.start()
        yield running
    finally:
        running.down()
        shutil.rmtree(directory, ignore_errors=True)


UP = ("up", "--port", "0", "--agents-port", "0", "--node-name", "node-a", "--simulated-devices")
SERVER = ("server", "--port", "0", "--agents-port", "0")
