"""The real agent with the real Podman runtime: Pods of images, told as a kubelet tells them, through a lost service."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.api.kinds import NODE, POD
from headrace.node.runtimes.podman import PodmanRuntime
from headrace.node.runtimes.protocol import ApplyFailed, Limits, RuntimeUnavailable
from headrace.runtime.clock import LoopClock
from tests.node.agent.home import (
    admit,
    container,
    create,
    is_gone,
    is_phase,
    is_running,
    open_store,
    pod,
    running_agent,
    state,
    until,
)
from tests.node.eventually import eventually
from tests.node.runtimes.podman_service import GREETING, IMAGE, Service

pytestmark = [pytest.mark.podman, pytest.mark.xdist_group("podman")]


@asynccontextmanager
async def at_home(service: Service, directory: Path) -> AsyncIterator[tuple[Any, PodmanRuntime]]:
    """A store, an agent and a runtime; containers are gone afterwards."""
    store, runtime = await open_store(), await PodmanRuntime.open(directory, service.socket, call_seconds=5)
    try:
        async with running_agent(store, runtime, directory, clock=LoopClock(time.time)):
            yield store, runtime
    finally:
        for each in await runtime.list():
            if each.state == "running":
                await runtime.kill(each.id)
        await eventually(lambda: _all_ended(runtime))
        for each in await runtime.list():
            await runtime.remove(each.id)
        await runtime.close()


async def _none(runtime: PodmanRuntime) -> bool:
    return await runtime.list() == []


async def _all_ended(runtime: PodmanRuntime) -> bool:
    return all(each.state == "exited" for each in await runtime.list())


def waiting(told: Any) -> dict[str, Any]:
    kind, found = state(told)
    return found if kind == "waiting" else {}


async def test_a_pod_that_names_only_an_image_runs_it_and_is_deleted(service: Service, tmp_path: Path) -> None:
    async with at_home(service, tmp_path) as (store, runtime):
        await create(store, pod(containers=[container("main", image=GREETING, command=[])], restartPolicy="Never"))
        told = await until(store, is_phase("Succeeded"))
        [status] = told["status"]["containerStatuses"]
        assert status["containerID"].startswith("podman://")
        node = (await store.list(NODE)).items[0]
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("podman://")
        uid = told["metadata"]["uid"]
        assert (tmp_path / f"pods/{uid}/logs/main_0.log").read_text().endswith("greeting nobody\n")
        await store.delete(POD, "p", "default")
        await until(store, is_gone)
        await eventually(lambda: _none(runtime))


async def test_limits_change_in_place(service: Service, tmp_path: Path) -> None:
    async with at_home(service, tmp_path) as (store, runtime):
        amounts = {"cpu": "500m", "memory": "64Mi"}
        main = container(
            "main", image=IMAGE, command=["sleep", "600"], resources={"requests": amounts, "limits": amounts}
        )
        await create(store, pod(containers=[main]))
        await until(store, is_running)
        [before] = await runtime.list()
        assert await runtime.read(before.id) == Limits(500, 64 << 20, 500)
        allocated = {"cpu": "700m", "memory": "96Mi", "limits.cpu": "700m", "limits.memory": "96Mi"}
        await admit(store, allocated)

        def grown(told: Any) -> bool:
            [status] = told["status"]["containerStatuses"]
            return bool((status.get("resources") or {}).get("limits") == {"cpu": "700m", "memory": "96Mi"})

        await until(store, grown)
        [after] = await runtime.list()
        assert (after.pid, await runtime.read(after.id)) == (before.pid, Limits(700, 96 << 20, 700))


async def test_an_image_that_cannot_be_pulled_backs_off(service: Service, tmp_path: Path) -> None:
    async with at_home(service, tmp_path) as (store, _):
        absent = container("main", image="127.0.0.1:1/absent:1", command=[])
        await create(store, pod(containers=[absent]))
        told = await until(store, lambda told: waiting(told).get("reason") == "ErrImagePull")
        assert "Failed to pull image" in waiting(told)["message"]
        told = await until(store, lambda told: waiting(told).get("reason") == "ImagePullBackOff")
        assert waiting(told)["message"].startswith('Back-off pulling image "127.0.0.1:1/absent:1"')
        never = container("main", image="localhost/absent:1", command=[], imagePullPolicy="Never")
        await store.delete(POD, "p", "default")
        await until(store, is_gone)
        await create(store, pod(containers=[never]))
        await until(store, lambda told: waiting(told).get("reason") == "ErrImageNeverPull")


async def test_an_oom_kill_is_told(service: Service, tmp_path: Path) -> None:
    async with at_home(service, tmp_path) as (store, _):
        resources = {"requests": {"cpu": "100m", "memory": "40Mi"}, "limits": {"memory": "40Mi"}}
        command = ["sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1; exit $?"]
        hungry = container("main", image=IMAGE, command=command, resources=resources)
        await create(store, pod(containers=[hungry], restartPolicy="Never"))
        told = await until(store, is_phase("Failed"))
        kind, found = state(told)
        assert (kind, found["reason"], found["exitCode"]) == ("terminated", "OOMKilled", 137)


async def test_an_exec_probe_asks_inside_of_the_container(service: Service, tmp_path: Path) -> None:
    async with at_home(service, tmp_path) as (store, _):
        probe = {"exec": {"command": ["sh", "-c", "test $container = podman"]}, "periodSeconds": 1}
        await create(
            store, pod(containers=[container("main", image=IMAGE, command=["sleep", "600"], readinessProbe=probe)])
        )
        await until(store, lambda told: told["status"].get("containerStatuses", [{}])[0].get("ready") is True)


async def test_while_podman_is_gone_limits_are_still_read_and_it_goes_on_when_it_is_back(
    service: Service, tmp_path: Path
) -> None:
    async with at_home(service, tmp_path) as (store, runtime):
        await create(
            store,
            pod(containers=[container("main", image=IMAGE, command=["sleep", "600"])], terminationGracePeriodSeconds=1),
        )
        await until(store, is_running)
        [before] = await runtime.list()
        service.stop()
        try:
            assert (await runtime.read(before.id)).cpu_milli is None
            began = time.monotonic()
            with pytest.raises(ApplyFailed, match="does not answer") as failed:
                await runtime.apply(before.id, Limits(300))
            assert failed.value.restored
            assert time.monotonic() - began < 5
            with pytest.raises(RuntimeUnavailable, match="does not answer"):
                await runtime.list()
            await store.delete(POD, "p", "default")
        finally:
            service.serve()
        assert [each.pid for each in await runtime.list() if each.state == "running"] in ([before.pid], [])
        await until(store, is_gone)


async def test_a_former_container_that_somebody_starts_again_is_stopped(service: Service, tmp_path: Path) -> None:
    """Stopped by hand, replaced by the agent, and started by hand again: nothing is charged for a second one."""
    async with at_home(service, tmp_path) as (store, runtime):
        main = container("main", image=IMAGE, command=["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"])
        await create(store, pod(containers=[main], terminationGracePeriodSeconds=5))
        await until(store, is_running)
        [first] = await runtime.list()
        await runtime.signal(first.id, 15)

        def replaced(told: Any) -> bool:
            [status] = told["status"]["containerStatuses"]
            return bool(status["restartCount"] == 1 and "running" in status["state"])

        await until(store, replaced)
        await asyncio.to_thread(service.podman, "start", runtime._name(first.id))

        async def only_the_newer_runs() -> bool:
            return [each.id for each in await runtime.list() if each.state == "running"] == [f"{first.id[:-1]}1"]

        await eventually(only_the_newer_runs)
