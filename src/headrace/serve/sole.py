"""One agent a directory: two would both start the node's Pods and resize its containers. One driver of a name, too."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from headrace.devices.driver.sockets import endpoint_of
from headrace.node.keeper import holder

FILE = "agent.lock"
DRIVER_FILE = "driver.lock"
WAIT_SECONDS = 10.0
LOOK_SECONDS = 0.1


@contextlib.asynccontextmanager
async def sole_agent(directory: Path, wait_seconds: float = WAIT_SECONDS) -> AsyncIterator[None]:
    """The lock is held while the body runs, and goes with the process however that ends.

    One that is about to end is waited for. Raises RuntimeError naming who holds it, or the directory of which this one
    is a copy: both agents would manage the same containers.
    """

    def in_use(pid: int | str) -> str:
        return f"{directory} is in use by the agent with pid {pid}: stop that one, or use another --data-dir"

    async with _holding(directory / FILE, in_use, wait_seconds) as file:
        if told := _copied(directory, file):
            raise RuntimeError(told)
        holder.sign(file)
        yield


@contextlib.asynccontextmanager
async def sole_driver(directory: Path, driver: str, wait_seconds: float = WAIT_SECONDS) -> AsyncIterator[None]:
    """As `sole_agent`, for one of our drivers and its two sockets: a second one would take them away from the first.

    `directory` is the agent's (a kubelet's). Raises RuntimeError.
    """

    def in_use(pid: int | str) -> str:
        return f"device driver {driver} runs beside {directory} already, with pid {pid}: stop that one first"

    async with _holding(endpoint_of(directory, driver).with_name(DRIVER_FILE), in_use, wait_seconds) as file:
        holder.sign(file)
        yield


@contextlib.asynccontextmanager
async def _holding(path: Path, in_use: Callable[[int | str], str], wait_seconds: float) -> AsyncIterator[int]:
    """The file, locked. Raises RuntimeError in the words of `in_use`, which is given the holder's pid."""
    os.makedirs(path.parent, mode=0o700, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            async with asyncio.timeout(wait_seconds):
                while not _locked(file):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)  # another process holds it
        except TimeoutError:
            raise RuntimeError(in_use(holder.pid(file) or "unknown")) from None
        yield file
    finally:
        os.close(file)


def agent_in(directory: Path) -> int | None:
    """The pid of the agent that works there; None when none does. Raises PermissionError for another user's."""
    try:
        file = os.open(directory / FILE, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return None if _locked(file) else holder.pid(file)
    finally:
        os.close(file)


def lone_agent(directory: Path) -> int | None:
    """The pid of an agent there or in `agent/`, whose server has never run there. Raises PermissionError likewise."""
    if (directory / "headrace.db").exists():
        return None
    here = agent_in(directory)
    return agent_in(directory / "agent") if here is None else here


def copy_refusal(directory: Path) -> str:
    """Why no agent may work there: it is a copy of a directory whose agent runs. Empty where it is not."""
    try:
        file = os.open(directory / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""  # not there, or not ours: others say so better
    try:
        return _copied(directory, file)
    finally:
        os.close(file)


def _copied(directory: Path, file: int) -> str:
    if (original := holder.of_original(file)) is None:
        return ""
    return (
        f"{directory} is a copy of the directory of the agent with pid {original}, which runs: "
        "both would manage the same containers; stop that one first"
    )


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
