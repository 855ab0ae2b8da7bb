"""The one HTTP client: TLS and credentials of a `Cluster`, bounded retries, JSON in and out, lines of a stream.

A request is repeated only where that cannot do harm: reads, requests that never left, and 429 answers.
"""

import asyncio
import dataclasses
import math
import os
import random
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson

from headrace.client.aiohttp_import import aiohttp
from headrace.client.credentials import Credentials
from headrace.client.errors import ApiError, Unreachable, from_answer
from headrace.client.exec_plugin import Credential
from headrace.client.kubeconfig import Cluster
from headrace.client.patience import STREAM, Patience, watching, while_there

TRIES = 5
FIRST_DELAY_SECONDS = 0.1
LONGEST_DELAY_SECONDS = 5.0
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
CONNECTIONS = 64
SHOWN_BYTES = 200
# A partition is noticed in about a minute even on a stream that is silent: keep-alive probes, then the user timeout.
PROBE_IDLE_SECONDS, PROBE_EVERY_SECONDS, PROBES = 30, 10, 3

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one try: an answer, or why there is none. `timed_out`: nobody answered, or not in time."""

    code: int = 0
    body: bytes = b""
    headers: Mapping[str, str] | None = None
    failure: Unreachable | None = None
    timed_out: bool = False


@dataclass(slots=True, eq=False)
class _Session:
    """What goes over one client certificate. `in_use` counts its requests and streams."""

    http: aiohttp.ClientSession
    certificate: str
    in_use: int = 0


class Client:
    """Use as `async with Client(cluster) as client`. `jitter` gives a number in [0, 1).

    With a person's `patience` nothing is asked again that was waited for once, and a failure is told soon.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        user_agent: str = "headrace",
        jitter: Callable[[], float] = random.random,
        patience: Patience | None = None,
    ) -> None:
        self.cluster = cluster
        self._credentials = Credentials(cluster)
        self._agent = user_agent
        self._jitter = jitter
        self._patience = patience
        self._connect_seconds = patience.connect_seconds if patience is not None else CONNECT_SECONDS
        self._session: _Session | None = None
        self._before: list[_Session] = []

    async def __aenter__(self) -> Self:
        self._session_of(await self._credentials.current())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (*self._before, *([self._session] if self._session else ())):
            await session.http.close()

    @asynccontextmanager
    async def _using(self, credential: Credential) -> AsyncIterator[aiohttp.ClientSession]:
        """A session is bound to its client certificate; what still runs on an older one goes on there, to its end."""
        session = self._session_of(credential)
        session.in_use += 1
        try:
            yield session.http
        finally:
            session.in_use -= 1
            idle = [each for each in self._before if not each.in_use]
            self._before = [each for each in self._before if each.in_use]
            for each in idle:
                await each.http.close()

    def _session_of(self, credential: Credential) -> _Session:
        if self._session is not None and credential.certificate_pem == self._session.certificate:
            return self._session
        mine = dataclasses.replace(self.cluster, certificate_pem=credential.certificate_pem, key_pem=credential.key_pem)
        tls = mine.tls() if mine.server.startswith("https") else True
        connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls, socket_factory=_probing_socket)
        headers = {"User-Agent": self._agent, "Accept": JSON}
        session = aiohttp.ClientSession(
            mine.server,
            connector=connector,
            headers=headers,
            auto_decompress=True,
            trace_configs=[watching(self._patience)] if self._patience is not None else None,
        )
        # Else it repeats a DELETE or PUT by itself when a kept connection is lost, whether it was done or not.
        session._retry_connection = False
        if self._session is not None:
            self._before.append(self._session)
        self._session = _Session(session, credential.certificate_pem)
        return self._session

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Any:
        """The decoded answer. Raises ApiError, Unreachable."""
        data = None if body is None else orjson.dumps(body)
        answer = await self._answered(method, path, query, data, {"Content-Type": content_type, "Accept": accept})
        return self._decoded(answer.body) if answer.body else None

    async def text(self, path: str, *, query: Mapping[str, str] | None = None) -> str:
        """A text answer of a GET."""
        answer = await self._answered("GET", path, query, None, {"Accept": "*/*"})
        return answer.body.decode("utf-8", "replace")

    async def _answered(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None, headers: Mapping[str, str]
    ) -> Attempt:
        delay, renewed, tries = FIRST_DELAY_SECONDS, False, 0
        since: float | None = None
        while True:
            attempt = await self._attempt(method, path, query, data, headers)
            if attempt.failure is None and attempt.code < 300:
                return attempt
            if attempt.code == 401 and self._credentials.can_change and not renewed:
                renewed = True  # once and at once: nothing was done, and another credential may be had
                continue
            tries += 1
            now = asyncio.get_running_loop().time()
            since = now if since is None else since
            left = self._time_left(attempt, tries, now - since)
            if left <= 0 or not _may_repeat(method, attempt):
                break
            await asyncio.sleep(min(left, _asked_delay(attempt) or delay * (0.5 + self._jitter())))
            delay = min(delay * 2, LONGEST_DELAY_SECONDS)
        if attempt.failure is not None:
            raise attempt.failure
        raise _refusal(attempt.code, attempt.body)

    def _time_left(self, attempt: Attempt, tries: int, passed: float) -> float:
        """For how many seconds it may be tried again, `passed` seconds after it first failed."""
        if self._patience is None or attempt.failure is None:
            return math.inf if tries < TRIES else 0.0
        return 0.0 if attempt.timed_out else self._patience.silent_seconds - passed

    async def _attempt(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None, headers: Mapping[str, str]
    ) -> Attempt:
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=self._connect_seconds)
        try:
            credential = await self._credentials.current()
        except Unreachable as failure:
            return Attempt(failure=failure)
        connected = asyncio.Event()
        try:
            async with (
                while_there(self.cluster.server, self._patience, connected),
                self._open(method, path, query, data, headers, timeout, credential, connected) as response,
            ):
                if response.status == 401:
                    self._credentials.refuse(credential)
                return Attempt(response.status, await response.read(), response.headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Attempt(failure=self._unreachable(error), timed_out=isinstance(error, TimeoutError))

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
        headers: Mapping[str, str],
        within: aiohttp.ClientTimeout,
        credential: Credential,
        context: asyncio.Event | str,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        authorization = {"Authorization": f"Bearer {credential.token}"} if credential.token else {}
        async with (
            self._using(credential) as session,
            session.request(
                method,
                path,
                params=query,
                data=data,
                headers={**headers, **authorization},
                timeout=within,
                allow_redirects=False,
                server_hostname=self.cluster.tls_server_name or None,
                trace_request_ctx=context,
            ) as response,
        ):
            yield response

    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, silence_seconds: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of a long answer, as they come. Raises ApiError at once, Unreachable at any time.

        `silence_seconds`: the longest time without a piece; None waits for ever (keep-alive probes still end a dead
        connection).
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_seconds, sock_read=silence_seconds)
        credential = await self._credentials.current()
        try:
            async with self._open("GET", path, query, None, {"Accept": "*/*"}, timeout, credential, STREAM) as response:
                if response.status == 401:
                    self._credentials.refuse(credential)
                if response.status >= 300:
                    raise _refusal(response.status, await response.read())
                async for piece in response.content.iter_any():
                    yield piece
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: BaseException) -> Unreachable:
        never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        words = str(error) or type(error).__name__
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            words = f"no connection within {self._connect_seconds:g} s"
        elif isinstance(error, aiohttp.ClientConnectorDNSError):
            words = f"host {error.host}: {error.strerror}"
        elif type(error) is aiohttp.ClientConnectorError and error.errno:
            words = os.strerror(error.errno)  # its own text speaks of options of the client library
        elif isinstance(error, TimeoutError) and not str(error):
            words = f"no answer within {ANSWER_SECONDS:g} s"
        return Unreachable(f"{self.cluster.server}: {words}", sent=not never_sent)

    async def documents(
        self, path: str, *, query: Mapping[str, str] | None = None, silence_seconds: float | None = None
    ) -> AsyncGenerator[Any, None]:
        """The JSON documents of a stream, one a line (a watch)."""
        rest = b""
        async with aclosing(self.stream(path, query=query, silence_seconds=silence_seconds)) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line:
                        yield self._decoded(line)

    def _decoded(self, text: bytes) -> Any:
        """Somebody between us and the server may answer in its place, with a page for people."""
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            shown = text[:SHOWN_BYTES].decode(errors="replace")
            raise Unreachable(f"{self.cluster.server}: the answer is no JSON: {shown!r}", sent=True) from None


def _may_repeat(method: str, attempt: Attempt) -> bool:
    if attempt.failure is not None:
        return method in ("GET", "HEAD") or not attempt.failure.sent
    return attempt.code == 429 or (attempt.code in (502, 503, 504) and method in ("GET", "HEAD"))


def _asked_delay(attempt: Attempt) -> float:
    """What Retry-After asks for, within our own bound."""
    asked = (attempt.headers or {}).get("Retry-After", "")
    return min(float(asked), LONGEST_DELAY_SECONDS) if asked.isascii() and asked.isdigit() else 0.0


def _refusal(code: int, body: bytes) -> ApiError:
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        decoded = None
    return from_answer(code, decoded, body.decode("utf-8", "replace"))


def _probing_socket(address: Any) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_IDLE_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    longest = PROBE_IDLE_SECONDS + PROBE_EVERY_SECONDS * PROBES
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, longest * 1000)
    return made
