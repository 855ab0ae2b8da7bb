"""Podman's REST API on its unix socket: every call has a time-out, and every failure is one of two exceptions.

Source: Podman's libpod API, v4.0.0 and later (docs.podman.io). A socket that others may write to is refused, since
whoever writes to it is the user that Podman runs as.
"""

import asyncio
import json
import os
import socket
import stat
import struct
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headrace.client.aiohttp_import import aiohttp
from headrace.node.runtimes.protocol import RuntimeUnavailable

API = "http://podman/v4.0.0/libpod"
CONNECT_SECONDS = 2.0
CALL_SECONDS = 15.0
QUIET_SECONDS = 60.0  # an events stream that says nothing for so long is opened anew
LINE_BYTES = 1 << 20
MOST_RLIMIT = 1_048_576  # Podman's default


class PodmanRefused(Exception):
    """Podman answered with an error; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class PodmanGone(RuntimeUnavailable):
    """Nobody answers on the socket, or not in time: whether the call took effect is unknown."""


WITHOUT_SOCKET = "start it (`systemctl start podman.socket`) or say where it is (--podman-socket)"


class UnsafeSocket(Exception):
    """The socket is not one that this user may trust."""


def default_socket() -> Path:
    """Where Podman's service listens for this user: $CONTAINER_HOST, else the packages' place."""
    told = os.environ.get("CONTAINER_HOST", "")
    if told.startswith("unix://"):
        return Path(told.removeprefix("unix://"))
    if os.geteuid() == 0:
        return Path("/run/podman/podman.sock")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}") / "podman/podman.sock"


def check_socket(path: Path) -> None:
    """Raises PodmanGone when there is no socket, UnsafeSocket when somebody else may answer on it or write to it."""
    try:
        found, above = path.stat(), path.parent.stat()
    except OSError as error:
        raise PodmanGone(f"podman socket {path}: {error.strerror}") from None
    if not stat.S_ISSOCK(found.st_mode):
        raise UnsafeSocket(f"podman socket {path}: is no socket")
    if found.st_mode & stat.S_IWOTH:
        mode = stat.S_IMODE(found.st_mode)
        raise UnsafeSocket(f"podman socket {path}: mode {mode:04o} lets every user in: chmod o-w")
    if found.st_uid not in (0, os.geteuid()):
        raise UnsafeSocket(f"podman socket {path}: belongs to user {found.st_uid}, not to root or user {os.geteuid()}")
    if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        raise UnsafeSocket(f"podman socket {path}: every user may replace it in {path.parent}")


def most_of_service(path: Path) -> dict[str, int]:
    """The greatest `nofile` and `nproc` that the listening process may have itself; without privileges it cannot give
    containers more, and Podman's own defaults are more. Nothing where that process cannot be seen.
    """
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(CONNECT_SECONDS)
            line.connect(str(path))
            pid, _, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        text = Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
    except OSError:
        return {}
    found = {}
    for name, title in (("nofile", "Max open files"), ("nproc", "Max processes")):
        [line_of] = [row for row in text.splitlines() if row.startswith(title)]
        most = line_of.removeprefix(title).split()[1]
        found[name] = MOST_RLIMIT if most == "unlimited" else min(int(most), MOST_RLIMIT)
    return found


class Podman:
    """One socket, many calls at once. Made within a running event loop."""

    def __init__(self, path: Path, call_seconds: float = CALL_SECONDS) -> None:
        self.path, self._seconds = path, call_seconds
        self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(path), limit=64))

    async def close(self) -> None:
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer's JSON; its text where it is none. Raises PodmanRefused, PodmanGone, UnsafeSocket."""
        check_socket(self.path)
        limit = self._seconds if seconds is None else seconds
        times = aiohttp.ClientTimeout(total=limit, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session.request(
                method, f"{API}{path}", params=dict(query or {}), json=body, timeout=times, headers=headers
            ) as answer:
                text = await answer.text()
        except TimeoutError:
            raise PodmanGone(f"podman on {self.path} did not answer {method} {path} within {limit:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise PodmanGone(f"podman on {self.path} does not answer: {error}") from None
        if answer.status >= 400:
            raise PodmanRefused(answer.status, _message(text, answer.status))
        return _json(text)

    async def beginning(self, path: str, body: object, most_bytes: int, seconds: float) -> str:
        """POST, and of the answer, which may be without end, what comes first; the rest is read and dropped.

        Raises PodmanRefused, PodmanGone, UnsafeSocket; TimeoutError when the answer has begun, but does not end within
        these seconds.
        """
        check_socket(self.path)
        times = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        kept, begun = b"", False
        try:
            async with asyncio.timeout(self._seconds) as limit:
                async with self._session.post(f"{API}{path}", json=body, timeout=times) as answer:
                    limit.reschedule(asyncio.get_running_loop().time() + seconds)
                    begun = True
                    async for piece in answer.content.iter_any():
                        kept += piece[: most_bytes - len(kept)]
        except TimeoutError:
            if begun:
                raise
            raise PodmanGone(f"podman on {self.path} did not answer POST {path} within {self._seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise PodmanGone(f"podman on {self.path} does not answer: {error}") from None
        text = kept.decode(errors="replace")
        if answer.status >= 400:
            raise PodmanRefused(answer.status, _message(text, answer.status))
        return text

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Any, None]:
        """A stream of JSON lines; None first, when it is open. Ends when Podman ends it or is quiet for a minute.

        Raises PodmanRefused, PodmanGone, UnsafeSocket when it cannot be opened.
        """
        check_socket(self.path)
        times = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=QUIET_SECONDS)
        try:
            async with self._session.get(
                f"{API}{path}", params=dict(query), timeout=times, read_bufsize=LINE_BYTES
            ) as answer:
                if answer.status >= 400:
                    raise PodmanRefused(answer.status, _message(await answer.text(), answer.status))
                yield None
                async for line in answer.content:
                    if line.strip():
                        yield _json(line.decode(errors="replace"))
        except TimeoutError:
            return
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PodmanGone(f"podman on {self.path} does not answer: {error}") from None


def in_path(name: str) -> str:
    """An image's name in a URL's path."""
    return quote(name, safe="/:@")


def filters(**wanted: list[str]) -> dict[str, str]:
    return {"filters": json.dumps(wanted)}


def _json(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _message(text: str, status: int) -> str:
    told = _json(text)
    return str(told.get("message") or told) if isinstance(told, dict) else str(told or f"HTTP {status}")
