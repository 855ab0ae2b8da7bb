"""Start the keeper of a directory if it has none. It belongs to nobody afterwards: own session, child of init."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import headrace

SOCKET = "keeper.sock"
LAUNCH_SECONDS = 30.0


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
    try:
        async with asyncio.timeout(LAUNCH_SECONDS):
            _, complaint = await process.communicate()
    except TimeoutError:
        raise KeeperFailed(f"keeper in {directory}: it has not started within {LAUNCH_SECONDS:g} s") from None
    finally:
        if process.returncode is None:  # also when our caller has given up: the next launch is not to wait for this one
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise KeeperFailed(f"keeper in {directory}: {lines[-1] if lines else f'exit code {process.returncode}'}")
    return directory
