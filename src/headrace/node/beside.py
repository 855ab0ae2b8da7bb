"""Runs a command beside a container, as its user: with a clean environment, no cgroup of ours, a session of its own.

Nothing of it is left when it has ended or its caller gives up, but what makes yet another session.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from headrace.node.environment import BASE
from headrace.node.keeper.spawn import group_of


async def run(command: Sequence[str], security: Mapping[str, Any], output_bytes: int) -> tuple[int, str]:
    """Exit code and the beginning of the output. `security`: a container's whole securityContext. Raises OSError."""
    end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    transport, told = await asyncio.get_running_loop().subprocess_exec(
        lambda: _Told(output_bytes, end),
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=BASE,
        cwd="/",
        start_new_session=True,
        **_user(security),
    )
    try:
        await end
    finally:
        if transport.get_returncode() is None:
            _kill(transport.get_pid())
        transport.close()
    return transport.get_returncode() or 0, told.output.decode(errors="replace")


class _Told(asyncio.SubprocessProtocol):
    """Keeps the beginning and drops the rest, so that the command neither waits nor fills our memory."""

    def __init__(self, output_bytes: int, end: "asyncio.Future[None]") -> None:
        self.output, self._most, self._end = b"", output_bytes, end
        self._pid = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output += data[: self._most - len(self.output)]

    def process_exited(self) -> None:
        _kill(self._pid)  # what it left in the background would hold the pipe, and pile up

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._end.done():
            self._end.set_result(None)


def _user(security: Mapping[str, Any]) -> dict[str, Any]:
    """As the keeper starts the container; without root, both are whoever we are."""
    uid, gid = security.get("runAsUser"), security.get("runAsGroup")
    group = group_of(uid, gid)
    if os.geteuid() != 0 or group is None:
        return {}
    return {"user": uid, "group": group, "extra_groups": [group]}


def _kill(session: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
