"""Kubernetes' own tables of tests as lines: a copy of its module outside the tree, with a test that writes them down.

Needs Go and the module proxy.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

MODULE = "k8s.io/dynamic-resource-allocation@v0.37.2"


def written_table(package: str, writer: Path, inserted: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """What `writer`, a test file for this package of the module, writes down.

    `inserted` are lines of the package's own tests and what is put before each of them.
    """
    go = shutil.which("go")
    if go is None:
        pytest.fail("Kubernetes' tests are run with Go 1.26, which is not on PATH")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headrace"
    digest = hashlib.sha256(writer.read_bytes() + repr(inserted).encode()).hexdigest()[:16]
    copy = cache / f"tables-{digest}"
    if not copy.exists():
        _prepare(go, copy, package, writer, inserted or {})
    table = copy / "table.jsonl"
    command = [go, "test", f"./{package}", "-run", "TestHeadraceWritesTheTable", "-count=1"]
    done = subprocess.run(command, cwd=copy, env={**os.environ, "HEADRACE_TABLE": str(table)}, capture_output=True)
    assert done.returncode == 0, done.stdout.decode()[-5000:] + done.stderr.decode()[-5000:]
    return [json.loads(line) for line in table.read_text().splitlines()]


def _prepare(go: str, copy: Path, package: str, writer: Path, inserted: Mapping[str, str]) -> None:
    told = subprocess.run([go, "mod", "download", "-json", MODULE], cwd=copy.anchor, capture_output=True, check=True)
    partial = copy.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(json.loads(told.stdout)["Dir"], partial, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(partial):
        os.chmod(folder, 0o755)
    shutil.copyfile(writer, partial / package / writer.name)
    for line, before in inserted.items():
        (file,) = (each for each in (partial / package).glob("*_test.go") if f"{line}\n" in each.read_text())
        text = file.read_text()
        assert text.count(f"{line}\n") == 1
        file.write_text(text.replace(f"{line}\n", f"{before}\n{line}\n"))
    partial.rename(copy)
