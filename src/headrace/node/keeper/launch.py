"""Start the keeper of a directory if it has none. It belongs to nobody afterwards: own session, child of init."""

import asyncio
import os
import sys
from pathlib import Path

import headrace

SOCKET = "keeper.sock"


class KeeperFailed(Exception):
    """The keeper could not be started or does not answer; the message says why."""


async def ensure_keeper(data_dir: Path) -> Path:
    """Answers the keeper's directory once clients can connect. Harmless when one runs already; raises KeeperFailed."""
    directory = data_dir / "keeper"
    sources = str(Path(headrace.__file__).parent.parent)
    # -P: nothing from the directory that somebody happens to start us in. -S, -s: no modules that the keeper does not
    # need, they would cost it memory for ever.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-S", "-s", "-m", "headrace.node.keeper", str(directory)),
        env={"PYTHONPATH": sources, "PATH": os.defpath, "LC_CTYPE": "C.UTF-8"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    _, complaint = await process.communicate()
    if process.returncode != 0:
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise KeeperFailed(f"keeper in {directory}: {lines[-1] if lines else f'exit code {process.returncode}'}")
    return directory
