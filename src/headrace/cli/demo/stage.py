"""The demo's stage: runs commands, shows them with their output, checks what must be so, and keeps the score."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.api.kinds import Kind
from headrace.client.paths import collection_path, object_path

WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.1
WIDTH = 100


class StepFailed(Exception):
    """Something was not as it should be; the message says what."""


@dataclass(slots=True)
class Stage:
    """`data_dir` belongs to the demo alone. `write` prints one line. `kubectl` is its path, if it is to be used."""

    data_dir: Path
    write: Callable[[str], None]
    kubectl: str | None
    checks: int = 0

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    def title(self, text: str) -> None:
        self.write("")
        self.write(f"── {text} {'─' * max(0, WIDTH - len(text) - 4)}")

    def say(self, text: str) -> None:
        self.write(f"   {text}")

    def check(self, what: str, holds: bool) -> None:
        """Say that something is as it should be, or end the demo."""
        if not holds:
            raise StepFailed(what)
        self.checks += 1
        self.write(f"   ✓ {what}")

    def headrace(self, *arguments: str, shown: Sequence[str] | None = None) -> str:
        """`headrace …` on this stage's server, shown with its output."""
        place = ("--data-dir", str(self.data_dir))
        return self._show(
            ("headrace", *(arguments if shown is None else shown)),
            (sys.executable, "-m", "headrace.cli", *arguments, *place),
        )

    def kube(self, *arguments: str, instead: Sequence[str]) -> str:
        """kubectl where it is installed, else headrace's own command for the same."""
        if self.kubectl is None:
            return self.headrace(*instead)
        return self._show(("kubectl", *arguments), (self.kubectl, "--kubeconfig", str(self.kubeconfig), *arguments))

    def apply(self, manifest: str) -> str:
        """`manifest`: its name among the demo's, or a whole path."""
        return self.kube("apply", "-f", manifest, instead=("apply", "-f", manifest))

    def resize(self, pod: str, patch: str) -> None:
        """PATCH of the resize subresource: by kubectl if it knows that subresource, else by HTTP as it is."""
        if self.kubectl is not None and self._knows_resize(self.kubectl):
            self.kube("patch", "pod", pod, "--subresource", "resize", "-p", patch, instead=())
            return
        self.write(f"   PATCH /api/v1/namespaces/default/pods/{pod}/resize {patch}")
        asyncio.run(_patch(self.kubeconfig, pod, json.loads(patch)))

    def _knows_resize(self, kubectl: str) -> bool:
        """Since kubectl 1.32."""
        told = json.loads(self._run((kubectl, "version", "--client", "-o", "json")))["clientVersion"]
        digits = "".join(each for each in told["minor"] if each.isdigit())
        return int(told["major"]) > 1 or int(digits or 0) >= 32

    def refused(self, *arguments: str) -> str:
        """`headrace …` that must be refused, shown with what it said."""
        command = (sys.executable, "-m", "headrace.cli", *arguments, "--data-dir", str(self.data_dir))
        self.write(f"   $ {' '.join(_quoted(each) for each in ('headrace', *arguments))}")
        done = self._done(command)
        if done.returncode == 0:
            raise StepFailed(f"headrace {' '.join(arguments)} was to be refused, and was not: {done.stdout.strip()}")
        for line in done.stderr.rstrip().splitlines():
            self.write(f"     {line}")
        return done.stderr

    def object(self, kind: Kind, name: str) -> dict[str, Any]:
        """An object as it is stored, not shown; empty when there is none."""
        return asyncio.run(_get(self.kubeconfig, object_path(kind, "default", name)))

    def objects(self, kind: Kind) -> list[dict[str, Any]]:
        """All of a kind in the default namespace, not shown."""
        found: list[dict[str, Any]] = asyncio.run(_get(self.kubeconfig, collection_path(kind, "default")))["items"]
        return found

    def quiet(self, *arguments: str) -> str:
        """The output of `headrace …`, not shown."""
        return self._run((sys.executable, "-m", "headrace.cli", *arguments, "--data-dir", str(self.data_dir)))

    def wait_for(self, what: str, look: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
        """The first answer of `look` that is not empty; the demo ends if there is none in time."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            if time.monotonic() > deadline:
                raise StepFailed(f"{what}: not so after {seconds:.0f} s")
            time.sleep(LOOK_SECONDS)
        return found

    def _show(self, shown: Sequence[str], command: Sequence[str]) -> str:
        self.write(f"   $ {' '.join(_quoted(each) for each in shown)}")
        output = self._run(command)
        for line in output.rstrip().splitlines():
            self.write(f"     {line}")
        return output

    def _run(self, command: Sequence[str]) -> str:
        done = self._done(command)
        if done.returncode != 0:
            raise StepFailed(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _done(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        manifests = Path(__file__).parent / "manifests"
        environment = {**os.environ, "HOME": str(self.data_dir), "KUBECONFIG": str(self.kubeconfig)}
        return subprocess.run(command, capture_output=True, text=True, cwd=manifests, env=environment, check=False)


async def _get(kubeconfig: Path, path: str) -> Any:
    from headrace.client.errors import ApiError, Unreachable
    from headrace.client.http import Client
    from headrace.client.kubeconfig import load

    async with Client(load(kubeconfig)) as client:
        try:
            return await client.request("GET", path)
        except ApiError as refused:
            if refused.code == 404:
                return {}
            raise StepFailed(f"GET {path}: {refused}") from None
        except Unreachable as failed:
            raise StepFailed(f"GET {path}: {failed}") from None


async def _patch(kubeconfig: Path, pod: str, patch: Any) -> None:
    from headrace.api.kinds import POD
    from headrace.client.errors import ApiError
    from headrace.client.http import STRATEGIC_PATCH, Client
    from headrace.client.kubeconfig import load
    from headrace.client.paths import object_path

    async with Client(load(kubeconfig)) as client:
        try:
            path = object_path(POD, "default", pod, "resize")
            await client.request("PATCH", path, body=patch, content_type=STRATEGIC_PATCH)
        except ApiError as refused:
            raise StepFailed(f"resize of {pod}: {refused}") from None


def _quoted(argument: str) -> str:
    return f"'{argument}'" if any(each in argument for each in ' {}"') else argument
