"""Kubernetes' allocator as a process: built once outside the tree, asked by lines of JSON."""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

SOURCE = Path(__file__).parent / "kubernetes"
BINARY = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headrace" / "allocate-peer"


class Peer:
    """Use it as a context; `ask` waits for the answer."""

    def __enter__(self) -> "Peer":
        BINARY.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(BINARY), "."], cwd=SOURCE, check=True)
        self._process = subprocess.Popen([BINARY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def ask(self, case: dict[str, Any], **more: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**case, **more}).encode() + b"\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found
