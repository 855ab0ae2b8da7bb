"""Kubernetes' own programs for tests: one binary, built with Go from the module proxy, once for each state of sources.

The first build takes about eight minutes on two cores; it goes to ~/.cache/headrace, never into the tree.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent
FILES = ("main.go", "node.go", "go.mod", "go.sum")
PROGRAMS = (
    "etcd",
    "idle-runtime",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)


class CannotBuild(Exception):
    """The message says what is missing, or what the compiler said."""


def programs() -> Path:
    """The folder with the programs, built if it is not there. Raises CannotBuild."""
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in FILES)).hexdigest()[:16]
    folder = Path.home() / ".cache" / "headrace" / f"kubernetes-{digest}"
    if not folder.exists():
        _build(folder)
    return folder


def version() -> str:
    """`v1.37.2`, as go.mod names it."""
    found = re.search(r"^\tk8s\.io/kubernetes (v[0-9.]+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _build(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise CannotBuild("Kubernetes is built from source as the judge of these tests: that needs Go 1.26 on PATH")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Made whole beside its place and moved there: a build that was cut short leaves nothing that looks finished.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="kubernetes-building-") as draft:
        whole = Path(draft) / "programs"
        whole.mkdir()
        done = subprocess.run(
            [go, "build", "-p", "2", "-trimpath", "-buildvcs=false", "-ldflags", _stamps(), "-o", whole / "kubernetes"],
            cwd=SOURCES,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CannotBuild(f"go build of tests/kubernetes failed:\n{done.stderr[-4000:]}")
        for name in PROGRAMS:
            (whole / name).symlink_to("kubernetes")
        if not folder.exists():
            whole.rename(folder)


def _stamps() -> str:
    """Without them the programs call themselves v0.0.0, and kubectl refuses to talk of versions."""
    place, (major, minor, _) = "k8s.io/component-base/version", version().removeprefix("v").split(".")
    values = {
        "gitVersion": version(),
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    return "-s -w " + " ".join(f"-X {place}.{name}={value}" for name, value in values.items())


if __name__ == "__main__":
    print(programs())
