"""Which runtime an agent works with: the one that is asked for, else the one it had before, else what is there."""

from pathlib import Path

from headrace.node.certificate import write_whole
from headrace.node.runtimes.podman import PodmanRuntime
from headrace.node.runtimes.podman_socket import (
    WITHOUT_SOCKET,
    PodmanGone,
    PodmanRefused,
    UnsafeSocket,
    check_socket,
    default_socket,
)
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import RuntimeUnavailable

RECORD = "runtime"  # in the data directory: `process`, or `podman SOCKET`

Chosen = ProcessRuntime | PodmanRuntime


class NoRuntime(RuntimeError):
    """The runtime that was asked for cannot be used here; the message says why."""


async def open_runtime(data_dir: Path, name: str = "", socket: Path | None = None) -> Chosen:
    """An empty name: what this directory's containers run in already, else Podman when its socket answers.

    Raises NoRuntime, KeeperFailed.
    """
    known, its_socket = recorded(data_dir)
    wanted = name or ("podman" if socket else known)
    place = socket or its_socket or default_socket()
    if known and wanted != known and await _runs_something(data_dir, known, its_socket):
        raise NoRuntime(f"--runtime {wanted}: containers of {data_dir} run in {known}; `headrace down` ends them")
    if wanted != "process":
        try:
            podman = await PodmanRuntime.open(data_dir, place)
        except (RuntimeUnavailable, UnsafeSocket, PodmanRefused) as error:
            if wanted:
                raise NoRuntime(f"--runtime podman: {error}") from None
        else:
            _record(data_dir, f"podman {place}")
            return podman
    process = await ProcessRuntime.open(data_dir)
    _record(data_dir, "process")
    return process


def refusal(data_dir: Path, socket: Path | None = None) -> str:
    """Why Podman cannot be used, as far as its socket's file tells; empty where it may be."""
    place = socket or recorded(data_dir)[1] or default_socket()
    try:
        check_socket(place)
    except PodmanGone as error:
        return f"{error}; {WITHOUT_SOCKET}"
    except UnsafeSocket as error:
        return str(error)
    return ""


def recorded(data_dir: Path) -> tuple[str, Path | None]:
    """The runtime that this directory's containers were started with, and Podman's socket; empty when there is none."""
    try:
        name, _, socket = (data_dir / RECORD).read_text(encoding="utf-8").strip().partition(" ")
    except FileNotFoundError:
        return "", None
    return name, Path(socket) if socket else None


def forget(data_dir: Path) -> None:
    """Nothing runs here any more: the next agent chooses anew."""
    (data_dir / RECORD).unlink(missing_ok=True)


async def _runs_something(data_dir: Path, name: str, socket: Path | None) -> bool:
    """What cannot be asked may run."""
    try:
        runtime: Chosen
        if name == "process":
            runtime = await ProcessRuntime.open(data_dir)
        else:
            runtime = await PodmanRuntime.open(data_dir, socket or default_socket())
        try:
            return any(state.state == "running" for state in await runtime.list())
        finally:
            await runtime.close()
    except (RuntimeUnavailable, UnsafeSocket, PodmanRefused):
        return True


def _record(data_dir: Path, text: str) -> None:
    """Whole or as it was: an agent that finds nothing here may choose another runtime than its containers run in."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(data_dir / RECORD, f"{text}\n".encode(), 0o644)
