"""One agent a directory: two would both start the node's Pods and resize its containers."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

FILE = "agent.lock"
WAIT_SECONDS = 10.0
LOOK_SECONDS = 0.1


@contextlib.asynccontextmanager
async def sole_agent(directory: Path, wait_seconds: float = WAIT_SECONDS) -> AsyncIterator[None]:
    """The lock is held while the body runs, and goes with the process however that ends.

    One that is about to end is waited for. Raises RuntimeError naming who holds it.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    file = os.open(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            async with asyncio.timeout(wait_seconds):
                while not _locked(file):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_SECONDS)  # another process holds it
        except TimeoutError:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip() or "unknown"
            raise RuntimeError(
                f"{directory} is in use by the agent with pid {holder}: stop that one, or use another --data-dir"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(file)


def agent_in(directory: Path) -> int | None:
    """The pid of the agent that works there; None when none does. Raises PermissionError for another user's."""
    try:
        file = os.open(directory / FILE, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        holder = os.pread(file, 20, 0).decode(errors="replace").strip()
        return int(holder) if not _locked(file) and holder.isdigit() else None
    finally:
        os.close(file)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
