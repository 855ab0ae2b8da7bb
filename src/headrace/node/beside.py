"""Runs a command beside a container, as its user and never with new privileges: with a clean environment, no cgroup of
ours, a session of its own.

Nothing of it is left when it has ended or its caller gives up, but what makes yet another session.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from headrace.node.environment import BASE
from headrace.node.keeper import linux
from headrace.node.keeper.spawn import group_of


async def run(command: Sequence[str], security: Mapping[str, Any], output_bytes: int) -> tuple[int, str]:
    """Exit code and the beginning of the output. `security`: a container's whole securityContext. Raises OSError."""
    process, told, transport = _start(command, security), _Told(output_bytes), None
    try:
        ended = _end_of(process)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: told, process.stdout)
        await ended
        await told.end
    finally:
        if process.returncode is None:
            _kill(process.pid)
        if transport is not None:
            transport.close()
    return process.returncode or 0, told.output.decode(errors="replace")


def _start(command: Sequence[str], security: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
    """From a thread that gives up all new privileges for itself and its children: nobody else here may lose them, and
    code of our own between fork and exec may wait for ever for a lock that another thread had.
    """
    user, group = _user(security)
    with ThreadPoolExecutor(1, "probe", linux.no_new_privileges) as thread:
        return thread.submit(
            subprocess.Popen,
            [*command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=BASE,
            cwd="/",
            start_new_session=True,
            bufsize=0,
            user=user,
            group=group,
            extra_groups=None if group is None else [group],
        ).result()


def _end_of(process: "subprocess.Popen[bytes]") -> "asyncio.Future[None]":
    """Done when it has ended and been waited for, which happens even if nobody is interested any more."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()
    descriptor = os.pidfd_open(process.pid)

    def over() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        _kill(process.pid)  # what it left in the background would hold the pipe, and pile up
        process.wait()
        if not end.done():
            end.set_result(None)

    loop.add_reader(descriptor, over)
    return end


class _Told(asyncio.Protocol):
    """Keeps the beginning and drops the rest, so that the command neither waits nor fills our memory."""

    def __init__(self, output_bytes: int) -> None:
        self.output, self._most = b"", output_bytes
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.output += data[: self._most - len(self.output)]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.end.done():
            self.end.set_result(None)


def _user(security: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """And the one group, as the keeper starts the container; without root, both are whoever we are."""
    uid, gid = security.get("runAsUser"), security.get("runAsGroup")
    group = group_of(uid, gid)
    return (None, None) if os.geteuid() != 0 or group is None else (uid, group)


def _kill(session: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
