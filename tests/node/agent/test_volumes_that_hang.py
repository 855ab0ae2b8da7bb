"""A path of the machine where nothing answers: the Pod that names it waits, and nobody else."""

import threading

from headrace.api.kinds import POD
from headrace.node import volumes
from tests.node.agent.home import create, is_running, open_store, pod, running_agent, until, wall
from tests.node.agent.simulated_runtime import SimulatedRuntime


async def test_one_pod_waits_for_its_volume_and_the_others_do_not(tmp_path, monkeypatch):
    asked, answers, set_up = threading.Event(), threading.Event(), volumes.set_up

    def hanging(pod, *rest):
        if pod.name == "hangs":
            asked.set()
            answers.wait(120)
        set_up(pod, *rest)

    monkeypatch.setattr(volumes, "set_up", hanging)
    store = await open_store()
    async with running_agent(store, SimulatedRuntime(wall), tmp_path):
        try:
            source = [{"name": "far", "hostPath": {"path": "/", "type": "Directory"}}]
            await create(store, pod("hangs", volumes=source))
            await until(store, lambda _: asked.is_set(), "hangs")
            await create(store, pod("goes", volumes=source))
            await until(store, is_running, "goes")
            assert not is_running(await store.get(POD, "hangs", "default"))
        finally:
            answers.set()
        await until(store, is_running, "hangs")
