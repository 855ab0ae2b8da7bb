"""A path of the machine where nothing answers: the Pod that names it waits and says so, and nobody else waits."""

import threading

import pytest

from headrace.api.kinds import EVENT, POD
from headrace.node import pod_worker, volumes
from headrace.node.aside import Aside
from tests.node.agent.home import create, is_gone, is_running, open_store, pod, running_agent, until, wall
from tests.node.agent.simulated_runtime import SimulatedRuntime
from tests.node.eventually import eventually


async def test_one_pod_waits_for_its_volume_and_says_so_and_the_others_do_not(tmp_path, monkeypatch):
    asked, answers, set_up = threading.Event(), threading.Event(), volumes.set_up

    def hanging(pod, *rest):
        if pod.name.startswith("hangs"):
            asked.set()
            answers.wait(120)
        set_up(pod, *rest)

    monkeypatch.setattr(volumes, "set_up", hanging)
    monkeypatch.setattr(pod_worker, "VOLUME_SECONDS", 1.0)
    store = await open_store()
    async with running_agent(store, SimulatedRuntime(wall), tmp_path):
        source = [{"name": "far", "hostPath": {"path": "/", "type": "Directory"}}]
        try:
            for name in ("hangs", "hangs-and-is-deleted"):
                await create(store, pod(name, volumes=source))
            await until(store, lambda _: asked.is_set(), "hangs")
            await create(store, pod("goes", volumes=[{"name": "near", "emptyDir": {}}]))
            await until(store, is_running, "goes")

            async def told():
                found = (await store.list(EVENT, "default")).items
                messages = [(each["involvedObject"]["name"], each["reason"], each["message"]) for each in found]
                return ("hangs", "FailedMount", "no answer within 1 s") in messages

            await eventually(told)
            assert not is_running(await store.get(POD, "hangs", "default"))
            await store.delete(POD, "hangs-and-is-deleted", "default")
            await until(store, is_gone, "hangs-and-is-deleted")
        finally:
            answers.set()
        await until(store, is_running, "hangs")


async def test_a_call_that_was_given_up_is_waited_for_before_the_next():
    aside, goes_on, begun = Aside(), threading.Event(), []

    def hanging():
        begun.append("first")
        goes_on.wait(120)

    with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
        await aside.call(hanging, 0.2)
    with pytest.raises(TimeoutError):
        await aside.call(lambda: begun.append("second"), 0.2)
    assert begun == ["first"]
    goes_on.set()
    assert await aside.call(lambda: "third", 60) == "third"
    assert begun == ["first"]


async def test_what_a_call_raises_is_raised():
    with pytest.raises(ValueError, match="odd"):
        await Aside().call(lambda: int("odd"), 60)
