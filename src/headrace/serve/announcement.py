"""Who serves a data directory: a small file beside the data, for `headrace status`, `down` and `up --detach`."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STATE = "up.json"


@dataclass(frozen=True, slots=True)
class Announced:
    """What a running server says of itself."""

    pid: int
    url: str
    agents_port: int
    kubeconfig: Path


def started(pid: int) -> str:
    """When the process with this number began, in the kernel's ticks; a number alone is given out again.

    Raises ProcessLookupError, OSError when there is none, or only a dead one whose parent has not asked for its end.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    if fields[0] in "ZX":
        raise ProcessLookupError(pid)
    return fields[19]


def is_alive(pid: int) -> bool:
    """Whether a process with this number runs; a dead one that nobody has waited for does not."""
    try:
        return bool(started(pid))
    except OSError:
        return False


@contextlib.contextmanager
def announcing(data_dir: Path, told: Announced) -> Iterator[None]:
    """The file is there while the body runs; whole, or not at all."""
    path = data_dir / STATE
    state = {
        "pid": told.pid,
        "started": started(told.pid),
        "directory": _number(data_dir),
        "url": told.url,
        "agentsPort": told.agents_port,
        "kubeconfig": str(told.kubeconfig),
    }
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(state))
    draft.rename(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def announced(data_dir: Path) -> Announced | None:
    """The server that runs on this directory, if one does: a file that a dead process left behind says nothing, nor
    does a copy.

    Raises PermissionError: of another user's directory nothing can be said.
    """
    try:
        state = json.loads((data_dir / STATE).read_text())
        here = _number(data_dir)
        if started(state["pid"]) != state["started"] or state.get("directory", here) != here:
            return None
        return Announced(state["pid"], state["url"], state["agentsPort"], Path(state["kubeconfig"]))
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _number(directory: Path) -> str:
    """A copy has another one."""
    found = directory.stat()
    return f"{found.st_dev}:{found.st_ino}"
