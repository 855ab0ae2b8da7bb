"""Child processes that are started again when they end, with growing pauses, and ended together at the stop."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from structlog.typing import FilteringBoundLogger

FIRST_SECONDS, LONGEST_SECONDS, STEADY_SECONDS = 0.2, 10.0, 30.0
STOP_SECONDS = 10.0
SUPERVISOR = "HEADRACE_SUPERVISOR_PID"
_PR_SET_PDEATHSIG = 1


async def supervise(
    name: str, arguments: Sequence[str], environment: Mapping[str, str], log: FilteringBoundLogger
) -> None:
    """`headrace ARGUMENTS`, again and again until cancelled; then it is asked to end, and killed if it does not."""
    delay = FIRST_SECONDS
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            code = await _run(arguments, environment)
        except OSError as error:  # no process or no memory is free for now
            delay = min(delay * 2, LONGEST_SECONDS)
            log.warning("part not started, trying it again", part=name, error=str(error), again_seconds=delay)
        else:
            delay = FIRST_SECONDS if loop.time() - began > STEADY_SECONDS else min(delay * 2, LONGEST_SECONDS)
            log.warning("part ended, starting it again", part=name, code=code, again_seconds=delay)
        await asyncio.sleep(delay)


async def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Its exit code. Raises OSError when it cannot be started."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace.cli", *arguments),
        env={**os.environ, **environment, SUPERVISOR: str(os.getpid())},
        stdin=asyncio.subprocess.DEVNULL,
        # A Ctrl-C on the terminal is for the parent alone, which ends its children in order.
        start_new_session=True,
    )
    try:
        return await child.wait()
    except asyncio.CancelledError:
        await _end(child)
        raise


async def _end(child: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()


def end_with_supervisor() -> None:
    """Called by a part at its start: it is asked to end (SIGTERM) when whoever supervises it dies, however that was.

    Else the next `up` would start a second agent for the same node. The kernel sends it, so kill -9 counts.
    """
    supervisor = os.environ.pop(SUPERVISOR, None)
    if supervisor is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(supervisor):  # it died before we asked
        os.kill(os.getpid(), signal.SIGTERM)
