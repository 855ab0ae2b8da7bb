"""The real agent with the real process runtime: `sh` processes under a keeper, on the real store."""

import asyncio
import os
import shutil
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.api.kinds import CONFIG_MAP, EVENT, POD, SECRET
from headrace.node.cgroups import files, hierarchy
from headrace.node.runtimes.process import ProcessRuntime
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
from tests.node.runtimes.programs import HOLD

pytestmark = pytest.mark.real_cgroups


@asynccontextmanager
async def process_runtime():
    """A runtime with a keeper of its own, in a short path (a unix socket's is limited); all of it goes at the end."""
    directory = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
    runtime = await ProcessRuntime.open(directory)
    try:
        yield runtime, directory
    finally:
        while states := await runtime.list():
            for each in states:
                await (runtime.kill(each.id) if each.state == "running" else runtime.remove(each.id))
            await asyncio.sleep(0.01)
        await runtime.stop_keeper()
        shutil.rmtree(directory)


def real_agent(store, runtime, directory):
    """On the machine's own clock, which is the processes' too."""
    return running_agent(store, runtime, directory, clock=LoopClock(time.time))


def shell(script, name="main", **fields):
    return container(name, command=["sh", "-c", script], **fields)


def log_text(directory, obj, name="main", attempt=0):
    path = directory / "pods" / obj["metadata"]["uid"] / "logs" / f"{name}_{attempt}.log"
    return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]


async def test_a_shell_runs_says_what_it_was_given_and_ends(tmp_path):
    store = await open_store()
    config = {"metadata": {"name": "settings"}, "data": {"colour": "blue", "size": "7"}}
    secret = {"metadata": {"name": "keys"}, "stringData": {"token": "s3cret"}}
    await store.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **config}, "default")
    await store.create(SECRET, {"apiVersion": "v1", "kind": "Secret", **secret}, "default")
    env = [
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "GREETING", "value": "hello $(WHO) $$(WHO) $(NOBODY)"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
    ]
    script = 'echo "$GREETING"; echo "$TOKEN"; echo "$colour $size"; exit 3'
    async with process_runtime() as (runtime, directory), real_agent(store, runtime, directory):
        spec = shell(script, env=env, envFrom=[{"configMapRef": {"name": "settings"}}])
        await create(store, pod(containers=[spec], restartPolicy="Never"))
        told = await until(store, is_phase("Failed"))
        assert state(told)[1]["exitCode"] == 3
        assert log_text(directory, told) == ["hello p $(WHO) $(NOBODY)", "s3cret", "blue 7"]
        await store.delete(POD, "p", "default")
        await until(store, is_gone)


async def test_limits_are_those_that_enforce_it_and_a_resize_changes_them_without_a_restart(tmp_path):
    store = await open_store()
    async with process_runtime() as (runtime, directory), real_agent(store, runtime, directory):
        if runtime.capabilities().cpu != "enforced":
            pytest.skip("cgroups cannot be written here")
        resources = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
        created = await create(store, pod(containers=[shell("sleep 1000", resources=resources)]))
        told = await until(store, is_running)
        pid = runtime_pid(await runtime.list())
        assert told["status"]["containerStatuses"][0]["resources"]["limits"] == {"cpu": "500m", "memory": "64Mi"}
        await admit(store, {"cpu": "700m", "memory": "96Mi", "limits.cpu": "700m", "limits.memory": "96Mi"})
        grown = {"cpu": "700m", "memory": "96Mi"}
        await until(store, lambda obj: obj["status"]["containerStatuses"][0]["resources"]["limits"] == grown)
        actual = await runtime.read(f"{created['metadata']['uid']}_main_0")
        assert (actual.cpu_milli, actual.memory_bytes) == (700, 96 * 2**20)
        assert runtime_pid(await runtime.list()) == pid


async def test_memory_in_use_is_not_taken_away(tmp_path):
    store = await open_store()
    async with process_runtime() as (runtime, directory), real_agent(store, runtime, directory):
        if runtime.capabilities().memory != "enforced":
            pytest.skip("cgroups cannot be written here")
        holder = container(command=[*HOLD, "40"], resources={"limits": {"memory": "256Mi"}})
        await create(store, pod(containers=[holder]))
        told = await until(store, is_running)
        await until(store, lambda obj: "held" in log_text(directory, obj))
        await admit(store, {"memory": "8Mi", "limits.memory": "8Mi"})
        told = await until(store, lambda obj: progress(obj).get("reason") == "Error")
        assert "8388608" in progress(told)["message"]
        assert told["status"]["containerStatuses"][0]["resources"]["limits"] == {"memory": "256Mi"}
        assert state(told)[0] == "running"


async def test_a_limit_changed_by_hand_is_found_and_put_back_without_a_restart(tmp_path):
    store = await open_store()
    clock = LoopClock(time.time)
    async with (
        process_runtime() as (runtime, directory),
        running_agent(store, runtime, directory, clock=clock, sync_seconds=0.2),
    ):
        if runtime.capabilities().cpu != "enforced":
            pytest.skip("cgroups cannot be written here")
        await create(store, pod(containers=[shell("sleep 1000", resources={"limits": {"cpu": "500m"}})]))
        await until(store, is_running)
        pid = runtime_pid(await runtime.list())
        is_v2 = runtime.capabilities().cgroup_version == "v2"
        place = hierarchy.find().places(pid)[hierarchy.UNIFIED if is_v2 else "cpu"]
        name, value, whole = (
            ("cpu.max", "33000 100000", "50000 100000") if is_v2 else ("cpu.cfs_quota_us", "33000", "50000")
        )
        await eventually(lambda: files.read(place / name) == whole)
        files.write(place / name, value)
        await eventually(lambda: files.read(place / name) == whole)

        async def told():
            events = (await store.list(EVENT, "default")).items
            return [each["message"] for each in events if each["reason"] == "ResourceDrift"]

        [message] = await eventually(told)
        assert message == "container main: found cpu 330m, memory unlimited, put back cpu 500m, memory unlimited"
        assert runtime_pid(await runtime.list()) == pid


async def test_an_agent_that_comes_back_finds_the_same_process(tmp_path):
    store = await open_store()
    async with process_runtime() as (runtime, directory):
        async with real_agent(store, runtime, directory):
            await create(store, pod(containers=[shell("while true; do echo tick; sleep 0.1; done")]))
            await until(store, is_running)
            before = runtime_pid(await runtime.list())
        async with real_agent(store, runtime, directory):
            told = await store.get(POD, "p", "default")
            assert runtime_pid(await runtime.list()) == before
            assert told["status"]["containerStatuses"][0]["restartCount"] == 0
            os.kill(before, 9)
            told = await until(store, lambda obj: obj["status"]["containerStatuses"][0]["restartCount"] == 1)
            assert told["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137


async def test_a_command_that_does_not_exist_is_told_and_tried_again(tmp_path):
    store = await open_store()
    async with process_runtime() as (runtime, directory), real_agent(store, runtime, directory):
        await create(store, pod(containers=[container(command=["/no/such/program"])]))
        told = await until(store, lambda obj: obj and state(obj)[1].get("reason") == "RunContainerError")
        assert "/no/such/program" in state(told)[1]["message"]


async def test_volumes_show_their_contents(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    store = await open_store()
    config = {"metadata": {"name": "settings"}, "data": {"colour": "blue"}}
    await store.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **config}, "default")
    volumes = [{"name": "config", "configMap": {"name": "settings"}}, {"name": "scratch", "emptyDir": {}}]
    mounts = [{"name": "config", "mountPath": "/tmp/hr-config"}, {"name": "scratch", "mountPath": "/tmp/hr-scratch"}]
    script = (
        "cat /tmp/hr-config/colour; echo; echo mine > /tmp/hr-scratch/file; cat /tmp/hr-scratch/file;"
        " (echo no > /tmp/hr-config/colour) 2>/dev/null && echo written; true"
    )
    async with process_runtime() as (runtime, directory), real_agent(store, runtime, directory):
        await create(
            store, pod(containers=[shell(script, volumeMounts=mounts)], volumes=volumes, restartPolicy="Never")
        )
        told = await until(store, lambda obj: obj and obj["status"].get("phase") in ("Succeeded", "Failed"))
        assert (told["status"]["phase"], log_text(directory, told)) == ("Succeeded", ["blue", "mine"])


def runtime_pid(states):
    [running] = [each for each in states if each.state == "running"]
    return running.pid


def progress(obj):
    conditions = {each["type"]: each for each in obj["status"].get("conditions", [])}
    return conditions.get("PodResizeInProgress", {})
