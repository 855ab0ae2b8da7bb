"""Startup, readiness and liveness probes: exec, httpGet, tcpSocket and grpc, counted as a kubelet counts.

An exec probe runs inside the container where the runtime can do that, else beside it: as the container's user, with a
clean environment, outside its cgroup.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

import grpc

from headrace.client.aiohttp_import import aiohttp
from headrace.node import beside
from headrace.node.pod import Container, Probe
from headrace.node.runtimes.protocol import ContainerState, Executes, RuntimeUnavailable
from headrace.runtime.clock import Clock

OUTPUT_BYTES = 1024
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"  # HealthCheckResponse with status SERVING


class Judge(Protocol):
    def __call__(
        self, id: str, *, ready: bool | None = None, started: bool | None = None, unhealthy: str = ""
    ) -> None: ...


class Probes:
    """The probes of one Pod's containers. Verdicts go to `judge`."""

    def __init__(self, judge: Judge, clock: Clock, address: str, inside: Executes | None = None) -> None:
        self._judge, self._clock, self._address, self._inside = judge, clock, address, inside
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def watch(self, container: Container, state: ContainerState) -> None:
        """Probe this run of the container, if it has probes; the runs before it are probed no more.

        Its securityContext is whole: what only the Pod's says is in it.
        """
        if state.id in self._tasks or not (
            container.startup_probe or container.readiness_probe or container.liveness_probe
        ):
            return
        for id in [id for id in self._tasks if id.rsplit("_", 1)[0] == state.id.rsplit("_", 1)[0]]:
            self._tasks.pop(id).cancel()
        self._tasks[state.id] = asyncio.create_task(self._run(container, state.id), name=f"probes {state.id}")

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _run(self, container: Container, id: str) -> None:
        if container.startup_probe is not None:
            error = await self._until(container, container.startup_probe, id)
            if error:
                self._judge(id, unhealthy=f"Startup probe failed: {error}")
                return
        self._judge(id, started=True)
        async with asyncio.TaskGroup() as tasks:
            if container.readiness_probe is not None:
                tasks.create_task(self._readiness(container, container.readiness_probe, id))
            if container.liveness_probe is not None:
                tasks.create_task(self._liveness(container, container.liveness_probe, id))

    async def _until(self, container: Container, probe: Probe, id: str) -> str:
        """Empty once it succeeded; the error after failureThreshold failures in a row."""
        await self._clock.sleep(probe.initial_delay_seconds)
        failures = 0
        while True:
            error = await self._tried(container, probe, id)
            failures = failures + 1 if error else 0
            if not error or failures >= probe.failure_threshold:
                return error
            await self._clock.sleep(probe.period_seconds)

    async def _readiness(self, container: Container, probe: Probe, id: str) -> None:
        await self._clock.sleep(probe.initial_delay_seconds)
        ready, run = False, 0
        while True:
            good = not await self._tried(container, probe, id)
            run = run + 1 if good != ready else 0
            if run >= (probe.success_threshold if good else probe.failure_threshold):
                ready, run = good, 0
                self._judge(id, ready=ready)
            await self._clock.sleep(probe.period_seconds)

    async def _liveness(self, container: Container, probe: Probe, id: str) -> None:
        error = ""
        while not error:
            error = await self._failing(container, probe, id)
        self._judge(id, unhealthy=f"Liveness probe failed: {error}")

    async def _failing(self, container: Container, probe: Probe, id: str) -> str:
        await self._clock.sleep(probe.initial_delay_seconds)
        failures = 0
        while True:
            error = await self._tried(container, probe, id)
            failures = failures + 1 if error else 0
            if failures >= probe.failure_threshold:
                return error
            await self._clock.sleep(probe.period_seconds)

    async def _tried(self, container: Container, probe: Probe, id: str) -> str:
        """One try; empty if it succeeded. A runtime that does not answer says nothing of the container: tried again."""
        while True:
            try:
                return await self._once(container, probe, id)
            except RuntimeUnavailable:
                await self._clock.sleep(probe.period_seconds)

    async def _once(self, container: Container, probe: Probe, id: str) -> str:
        """One try; empty if it succeeded. Raises RuntimeUnavailable."""
        try:
            if probe.exec is not None:
                return await self._command(probe.exec.get("command") or [], container, id, probe.timeout_seconds)
            async with asyncio.timeout(probe.timeout_seconds):
                if probe.http_get is not None:
                    return await self._http(probe.http_get, container)
                if probe.tcp_socket is not None:
                    return await self._connect(probe.tcp_socket, container)
                if probe.grpc is not None:
                    return await self._health(probe.grpc)
        except TimeoutError:
            return f"no answer within {probe.timeout_seconds} s"
        except (OSError, aiohttp.ClientError, ValueError) as error:
            return str(error)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        except RuntimeUnavailable:
            raise
        except Exception as error:  # a probe that cannot be made has failed; else nobody would ever be told
            return f"{type(error).__name__}: {error}"
        return "the probe names none of exec, httpGet, tcpSocket and grpc"

    async def _command(self, command: list[str], container: Container, id: str, seconds: float) -> str:
        if not command:
            return "exec.command must not be empty"
        if self._inside is not None:
            code, output = await self._inside.execute(id, command, OUTPUT_BYTES, seconds)
        else:
            async with asyncio.timeout(seconds):
                code, output = await beside.run(command, container.security_context, OUTPUT_BYTES)
        return "" if code == 0 else output or "the command failed"

    async def _http(self, get: Mapping[str, Any], container: Container) -> str:
        scheme = str(get.get("scheme") or "HTTP").lower()
        url = f"{scheme}://{get.get('host') or self._address}:{_port(get['port'], container)}{get.get('path') or '/'}"
        headers = {header["name"]: header["value"] for header in get.get("httpHeaders") or ()}
        # A kubelet does not verify certificates of probes either: it asks the Pod about itself.
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as answer,
        ):
            return "" if 200 <= answer.status < 400 else f"HTTP probe failed with statuscode: {answer.status}"

    async def _connect(self, socket: Mapping[str, Any], container: Container) -> str:
        host, port = socket.get("host") or self._address, _port(socket["port"], container)
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        return ""

    async def _health(self, probe: Mapping[str, Any]) -> str:
        """grpc.health.v1.Health/Check; its two messages have one field each."""
        service = str(probe.get("service") or "").encode()
        if len(service) > 127:
            return "grpc.service: must be at most 127 bytes"
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"{self._address}:{probe['port']}", options=options) as channel:
            call = channel.unary_unary(HEALTH_CHECK, request_serializer=bytes, response_deserializer=bytes)
            answer = await call(b"\x0a" + bytes([len(service)]) + service)
        return "" if answer == SERVING else f"service {service.decode()!r} is not serving"


def _port(port: int | str, container: Container) -> int:
    """A number, or the name of one of the container's ports. Raises ValueError."""
    if isinstance(port, int):
        return port
    for each in container.ports:
        if each.get("name") == port:
            return int(each["containerPort"])
    return int(port)
