"""Which processes belong to a container, and killing them all.

With cgroups the kernel knows. Without, a process belongs to its container's session or carries the container's marker
in the environment it was started with: one that leaves its session *and* cleans its environment escapes.
"""

import contextlib
import os
import signal

from headrace.node.keeper.identity import ZOMBIE_STATES, stat

MARKER = "HEADRACE_CONTAINER"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def in_groups(directories: "Sequence[str]") -> set[int]:
    """Processes in these cgroups and below them; a cgroup that is gone has none."""
    found: set[int] = set()
    for directory in directories:
        for place, _, _ in os.walk(directory):
            try:
                with open(os.path.join(place, "cgroup.procs"), encoding="ascii") as file:
                    found.update(int(line) for line in file if line != "0\n")
            except FileNotFoundError:
                continue
    return found


def marked(marker: str, session: int | None) -> set[int]:
    """Processes with the container's marker, or of its session, without those that have ended."""
    found = set()
    variable = f"{MARKER}={marker}\0".encode()
    own = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        seen = stat(int(name))
        if seen is None or seen.state in ZOMBIE_STATES:
            continue
        if seen.session == session or variable in _environment(name):
            found.add(int(name))
    return found


def _environment(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read() + b"\0"
    except OSError:  # another user's, or gone
        return b""


def kill_all(directories: "Sequence[str]", main: int, marker: str, session: int | None) -> bool:
    """SIGKILL to every member; true when there is none but the main process. Repeat until then: they may fork."""
    at_once = [directory for directory in directories if _write(directory, "cgroup.kill", "1")]
    # Before Linux 5.14 and on v1 alone: what is frozen cannot fork while its siblings are being killed.
    frozen = [] if at_once else [directory for directory in directories if _write(directory, "freezer.state", "FROZEN")]
    members = in_groups(directories) if directories else marked(marker, session)
    for pid in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for directory in frozen:
        _write(directory, "freezer.state", "THAWED")
    return not members - {main}


def _write(directory: str, name: str, value: str) -> bool:
    """False where the cgroup has no such file, or is gone."""
    try:
        descriptor = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, value.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
