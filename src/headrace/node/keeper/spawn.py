"""From a fork to the container's first instruction. The child waits until its record is on the disk, then becomes it.

Nothing of the keeper goes along: descriptors, signal handlers, environment, limits and privileges are the container's.
"""

import fcntl
import os
import resource
import signal

from headrace.node.keeper import linux, mounts
from headrace.node.keeper.members import MARKER

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SOFT_FILES = 1024
_STATUS = 3  # the one descriptor beyond 0, 1, 2 until exec closes it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class Child:
    """A forked child that waits: `go` lets it run; `status` gives one line if it could not, and ends with exec."""

    __slots__ = ("_go", "pid", "status")

    def __init__(self, pid: int, go: int, status: int) -> None:
        self.pid, self._go, self.status = pid, go, status

    def go(self) -> None:
        os.write(self._go, b"g")
        os.close(self._go)

    def abandon(self) -> None:
        """It ends without having run; the caller reaps it."""
        os.close(self._go)
        os.close(self.status)


def fork(spec: "dict[str, Any]", marker: str, outputs: tuple[int, int], stage: str, most_files: int) -> Child:
    """Fork a child that will become `spec`; `most_files` is its hard limit. `outputs` stay the caller's."""
    pipes: list[int] = []
    try:
        pipes += os.pipe()
        pipes += os.pipe()
        pid = os.fork()
    except OSError:  # no descriptor or no process is free
        for end in pipes:
            os.close(end)
        raise
    go_reading, go_writing, status_reading, status_writing = pipes
    if pid == 0:
        os.close(go_writing)
        _become(spec, marker, outputs, stage, most_files, go_reading, status_writing)
    os.close(go_reading)
    os.close(status_writing)
    os.set_blocking(status_reading, False)
    return Child(pid, go_writing, status_reading)


def _become(
    spec: "dict[str, Any]",
    marker: str,
    outputs: tuple[int, int],
    stage: str,
    most_files: int,
    go: int,
    status: int,
) -> "NoReturn":
    step = "wait"
    try:
        os.setsid()
        if os.read(go, 1) != b"g":  # the keeper died before the record was durable: this never ran
            os._exit(125)
        step = "log"
        _descriptors(outputs, status)
        status = _STATUS
        step = "cgroup"
        for directory in spec.get("cgroups", ()):
            with open(os.path.join(directory, "cgroup.procs"), "w", encoding="ascii") as file:
                file.write("0")
        step = "limits"
        _limits(spec, most_files)
        if spec.get("mounts"):
            step = "mount"
            mounts.enter(spec["mounts"], stage)
        step = "user"
        _user(spec.get("uid"), spec.get("gid"))
        linux.no_new_privileges()
        step = "working directory"
        os.chdir(spec["working_dir"] or "/")
        step = "exec"
        environment = dict(spec["env"])
        environment.setdefault("PATH", DEFAULT_PATH)
        environment[MARKER] = marker
        if (
            spec.get("address_space") is not None
        ):  # approximate mode; last, since this interpreter may have more already
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]  # the hard limit stays, so that it can grow again
            resource.setrlimit(resource.RLIMIT_AS, (spec["address_space"], hard))
        os.execvpe(spec["argv"][0], spec["argv"], environment)
    except BaseException as error:
        os.write(status, describe(step, error, spec).encode())
    os._exit(127)


def describe(step: str, error: BaseException, spec: "dict[str, Any]") -> str:
    """What a person reads when a container could not be started."""
    if step == "exec" and isinstance(error, FileNotFoundError) and "/" not in spec["argv"][0]:
        return f'exec: "{spec["argv"][0]}": executable file not found in $PATH'
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if step == "exec":
        return f'exec: "{spec["argv"][0]}": {reason}'
    if step == "mount" and os.geteuid() != 0 and isinstance(error, PermissionError):
        return f"mount: {reason}: an ordinary user needs unprivileged user namespaces for volumes"
    where = getattr(error, "filename", None)
    return f"{step}: {where}: {reason}" if where else f"{step}: {reason}"


def _descriptors(outputs: tuple[int, int], status: int) -> None:
    """0 is /dev/null, 1 and 2 the FIFOs, 3 the status line; everything else is closed."""
    high = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _STATUS + 1) for number in (*outputs, status)]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(high[0], 1)
    os.dup2(high[1], 2)
    os.dup2(high[2], _STATUS, inheritable=False)
    os.closerange(_STATUS + 1, 2**31 - 1)


def _limits(spec: "dict[str, Any]", most_files: int) -> None:
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(number) is not signal.SIG_DFL:
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):  # a number that libc keeps for itself
                continue
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    # The soft limit that select() can bear, as systemd sets it; a program that needs more raises it.
    soft = SOFT_FILES if most_files == resource.RLIM_INFINITY else min(SOFT_FILES, most_files)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most_files))
    if os.geteuid() == 0:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("0")
    if spec.get("cpus"):
        os.sched_setaffinity(0, spec["cpus"])


def _user(uid: int | None, gid: int | None) -> None:
    if os.geteuid() != 0:
        if (uid is not None and uid != os.geteuid()) or (gid is not None and gid != os.getegid()):
            raise OSError(1, f"runAsUser {uid}, runAsGroup {gid}: only root can become another user")
        return
    group = group_of(uid, gid)
    if group is not None:
        os.setgroups([group])
        os.setresgid(group, group, group)
        if uid is not None:
            os.setresuid(uid, uid, uid)


def group_of(uid: int | None, gid: int | None) -> int | None:
    """The one group of a user: without one asked for, the user's own number, since root's group would be a gift."""
    return gid if gid is not None else uid
