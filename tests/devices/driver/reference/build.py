"""A driver on Kubernetes' own library, built with Go from the module proxy into ~/.cache/headrace, once."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent
FILES = ("main.go", "go.mod", "go.sum")


class CannotBuild(Exception):
    """The message says what is missing, or what the compiler said."""


def program() -> Path:
    """Raises CannotBuild."""
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in FILES)).hexdigest()[:16]
    place = Path.home() / ".cache" / "headrace" / f"reference-driver-{digest}"
    if not place.exists():
        go = shutil.which("go")
        if go is None:
            raise CannotBuild("the reference driver is built from source: that needs Go 1.26 on PATH")
        place.parent.mkdir(parents=True, exist_ok=True)
        # Made beside its place and moved there: a build that was cut short leaves nothing that looks finished.
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="reference-driver-building-") as draft:
            whole = Path(draft) / "driver"
            done = subprocess.run(
                [go, "build", "-p", "2", "-trimpath", "-o", whole, "."],
                cwd=SOURCES,
                env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise CannotBuild(f"go build of the reference driver failed:\n{done.stderr[-4000:]}")
            whole.rename(place)
    return place
