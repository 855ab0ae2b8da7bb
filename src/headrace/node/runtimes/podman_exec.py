"""Ends a command inside a container that its client has given up: Podman has no call for that, and lets it run on.

Killed are the processes of the command's session, as long as they are in the container's own cgroup.
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from headrace.node.keeper.identity import ZOMBIE_STATES, stat
from headrace.node.keeper.members import in_groups
from headrace.node.runtimes.podman_socket import Podman, PodmanGone, PodmanRefused, UnsafeSocket

GIVE_UP_SECONDS = 120.0
RETRY_SECONDS = 0.2


async def end(podman: Podman, path: str, directories: Sequence[str]) -> None:
    """Returns once nothing of it is left, at the latest after two minutes. `path` is the exec session's.

    It may begin only now: Podman starts it also for a client that has left.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while True:
                if await _is_ended(podman, path, directories):
                    return
                await asyncio.sleep(RETRY_SECONDS)


async def _is_ended(podman: Podman, path: str, directories: Sequence[str]) -> bool:
    try:
        told = await podman.call("GET", f"{path}/json")
    except PodmanRefused:  # gone, with its container
        return True
    except (PodmanGone, UnsafeSocket):
        return False
    session = int(told["Pid"] or 0)
    left = bool(session) and await asyncio.to_thread(_kill, directories, session)
    return not left and bool(session or told["CanRemove"])


def _kill(directories: Sequence[str], session: int) -> bool:
    """Whether there was anything to kill."""
    found = False
    for pid in in_groups(directories):
        seen = stat(pid)
        if seen is not None and seen.session == session and seen.state not in ZOMBIE_STATES:
            found = True
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return found
