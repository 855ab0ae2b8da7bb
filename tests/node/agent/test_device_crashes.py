"""Nothing leaks, wherever an agent or a driver dies: after the next audit no CDI document and no record is left."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from headrace.api.kinds import RESOURCE_CLAIM
from headrace.devices.driver.cdi_files import CdiFiles
from headrace.node.device_record import DeviceRecord
from headrace.node.driver_client import DeviceProblem, DriverGone
from tests.node.agent.killed_agent import Steps
from tests.node.agent.test_devices import NAME, site, user


class Killed(BaseException):
    """Stands for SIGKILL: nobody catches it."""


def die():
    raise Killed


def recorded(here):
    path = here.directory / "devices.json"
    return json.loads(path.read_bytes())["claims"] if path.exists() else []


async def live(here, pod):
    """A whole life of the Pod's claim under one agent."""
    devices = here.devices()
    await devices.prepare(pod)
    await devices.release(pod.uid)


async def steps_of_a_life():
    async with site() as here:
        pod = user()
        await here.claim("claim", "gpu-0", pod)
        steps = Steps(0, die)
        with steps.counted():
            await live(here, pod)
        return steps.count


@pytest.mark.parametrize("ending", ["the Pod is gone", "the Pod goes on", "the machine was restarted"])
async def test_dead_at_any_step_it_leaves_nothing(ending):
    count = await steps_of_a_life()
    assert count > 12
    for last in range(1, count + 1):
        async with site() as here:
            pod = user()
            await here.claim("claim", "gpu-0", pod)
            with pytest.raises(Killed), Steps(last, die).counted():
                await live(here, pod)
            again = here.devices("boot-2" if ending == "the machine was restarted" else "boot-1")
            if ending != "the Pod is gone":
                await again.prepare(pod)
                assert len(here.documents()) == 1, f"not prepared after death at step {last}"
                assert again.cdi_names(pod, pod.spec.containers[0])
            assert await again.audit([]) == []
            assert (here.documents(), recorded(here)) == ([], []), f"left after death at step {last} of {count}"


@pytest.mark.slow
async def test_killed_with_sigkill_at_any_step_it_leaves_nothing():
    count = last = 1
    while last <= count:
        async with site() as here:
            pod = user()
            await here.claim("claim", "gpu-0", pod)
            command = (sys.executable, "-m", "tests.node.agent.killed_agent", str(here.directory), str(last))
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
            if last == 1:  # how many steps there are is told by one that lives
                command = (*command[:-1], "0")
                whole = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
                count = int(whole.stdout.split()[-1])
                assert count > 12
            assert done.returncode == -9, done.stderr
            assert await here.devices().audit([]) == []
            assert (here.documents(), recorded(here)) == ([], [])
        last += 1


@pytest.mark.parametrize("at", ["fsync", "rename"])
async def test_a_driver_that_dies_while_it_writes_leaves_no_draft(at, monkeypatch, tmp_path):
    from headrace.api.cdi import ContainerEdits, Device

    files = CdiFiles(tmp_path, NAME, f"{NAME}/claim")

    def killed(*arguments):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os if at == "fsync" else type(tmp_path), at, killed)
        with pytest.raises(Killed):
            files.write("uid", [Device("gpu", ContainerEdits(env=("A=b",)))])
    assert len(list(tmp_path.iterdir())) == 1
    files.remove("uid")
    assert list(tmp_path.iterdir()) == []


def test_a_document_without_devices_is_removed_and_never_written(tmp_path):
    from headrace.api.cdi import ContainerEdits, Device

    files = CdiFiles(tmp_path, NAME, f"{NAME}/claim")
    files.write("uid", [Device("gpu", ContainerEdits(env=("A=b",)))])
    assert files.write("uid", []) == ()
    assert list(tmp_path.iterdir()) == []


async def test_a_claim_that_was_deleted_while_the_agent_was_down_is_unprepared_at_its_start():
    async with site() as here:
        pod = user()
        await here.claim("claim", "gpu-0", pod)
        await here.devices().prepare(pod)
        await here.store.delete(RESOURCE_CLAIM, "claim", "default")
        assert await here.devices().audit([]) == []
        assert (here.documents(), recorded(here)) == ([], [])


async def test_a_prepare_that_comes_late_finds_its_claim_gone_and_does_nothing():
    async with site() as here:
        pod, devices = user(), here.devices()
        await here.claim("claim", "gpu-0", pod)
        await devices.prepare(pod)
        late = here.plugin.prepare(late_claim(here))
        await devices.release(pod.uid)
        await here.store.delete(RESOURCE_CLAIM, "claim", "default")
        assert "not found" in (await late).error
        assert here.documents() == []


def late_claim(here):
    from headrace.wire.generated import dra_v1_pb2 as dra

    [claim] = recorded(here)
    return dra.Claim(namespace="default", name="claim", uid=claim["uid"])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a read-only file system")
async def test_on_a_read_only_directory_a_claim_stays_prepared_and_recorded_until_it_can_go():
    async with site() as here:
        pod, devices = user(), here.devices()
        here.cdi.mkdir()
        mounted("-t", "tmpfs", "none", here.cdi)
        try:
            await here.claim("claim", "gpu-0", pod)
            await devices.prepare(pod)
            mounted("-o", "remount,ro", here.cdi)
            with pytest.raises(DeviceProblem, match=r"CDI document: .*Read-only file system"):
                await devices.release(pod.uid)
            assert len(here.documents()) == len(recorded(here)) == 1
            mounted("-o", "remount,rw", here.cdi)
            await devices.release(pod.uid)
            assert (here.documents(), recorded(here)) == ([], [])
        finally:
            unmounted(here.cdi)


def mounted(*arguments):
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr}")


def unmounted(directory):
    subprocess.run(["umount", directory], check=True)


async def test_what_a_dead_driver_owes_is_not_given_out_and_is_undone_when_it_is_back():
    async with site() as here:
        first, second, devices = user("a"), user("b"), here.devices()
        await here.claim("claim", "gpu-0", first, second)
        await devices.prepare(first)
        hidden = here.directory / "hidden"
        here.plugin.registry.rename(hidden)
        await here.plugins.look()
        with pytest.raises(DriverGone, match=f"driver {NAME} is not registered"):
            await devices.release(first.uid)
        await devices.abandon(first.uid)
        await devices.release(first.uid)  # nothing holds the Pod any more
        assert len(recorded(here)) == 1
        [failure] = await devices.audit([])
        assert "is not registered" in failure
        hidden.rename(here.plugin.registry)
        await here.plugins.look()
        await devices.prepare(second)
        assert here.driver.calls == ["prepare", "prepare"]  # anew, not as it was left
        assert await devices.audit([second.uid]) == []
        assert len(here.documents()) == 1
        await devices.release(second.uid)
        assert (here.documents(), recorded(here)) == ([], [])


async def test_a_driver_that_refuses_is_never_abandoned():
    async with site() as here:
        pod, devices = user(), here.devices()
        await here.claim("claim", "gpu-0", pod)
        await devices.prepare(pod)
        here.driver.error = "still in use"
        with pytest.raises(DeviceProblem, match="still in use") as refused:
            await devices.release(pod.uid)
        assert not isinstance(refused.value, DriverGone)


async def test_devices_that_need_no_driver_on_the_node_are_used_without_one():
    async with site() as here:
        pod = user()
        await here.claim("claim", "gpu-0", pod, driver="remote.example.com", skipNodeOperations=["*"])
        devices = here.devices()
        await devices.prepare(pod)
        assert devices.cdi_names(pod, pod.spec.containers[0]) == []
        await devices.release(pod.uid)
        assert (here.driver.calls, recorded(here)) == ([], [])


async def test_a_record_that_an_older_agent_wrote_is_read():
    async with site() as here:
        pod = user()
        await here.claim("claim", "gpu-0", pod)
        await here.devices().prepare(pod)
        path = here.directory / "devices.json"
        content = json.loads(path.read_bytes())
        for driver in content["claims"][0]["drivers"].values():
            driver.pop("skips", None)
        path.write_text(json.dumps(content))
        assert DeviceRecord(path, "boot-1").claims()[0].drivers[NAME].prepared
