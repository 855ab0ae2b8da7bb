"""The agent as a client of drivers, on unix sockets: what others got wrong, each a test."""

import asyncio
import shutil
import socket
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from headrace.api.kinds import RESOURCE_CLAIM
from headrace.api.objects import uid_of
from headrace.devices.driver.interface import PrepareError
from headrace.devices.driver.plugin import Plugin
from headrace.devices.driver.simulated import NAME, SimulatedGpus
from headrace.node.containers import Problem
from headrace.node.device_record import DeviceRecord
from headrace.node.devices import Devices
from headrace.node.driver_client import DeviceProblem
from headrace.node.plugins import Plugins, refusal
from headrace.node.pod import view
from headrace.runtime.clock import LoopClock
from headrace.wire.generated import dra_v1_pb2 as dra
from tests.node.agent.home import as_node, open_store

CLOCK = LoopClock(time.time)
LOG = structlog.get_logger()


class Driver(SimulatedGpus):
    """The simulated GPUs, counting calls, and failing or hanging when a test says so."""

    def __init__(self, node, cdi):
        super().__init__(node, cdi)
        self.calls = []
        self.error = None

    def prepare(self, claim_uid, devices):
        self.calls.append("prepare")
        found = super().prepare(claim_uid, devices)
        if self.error:
            raise PrepareError(self.error)
        return found

    def unprepare(self, claim_uid):
        self.calls.append("unprepare")
        if self.error:
            raise PrepareError(self.error)
        super().unprepare(claim_uid)


class Site:
    """A node's directory with one driver. `devices()` is what an agent makes of it when it starts."""

    def __init__(self, store, directory):
        self.store, self.directory = store, directory
        self.cdi = directory / "cdi"
        self.driver = Driver("node-a", self.cdi)
        self.plugin = Plugin(self.driver, "node-a", as_node(store), directory, clock=CLOCK, log=LOG)
        self.plugins = Plugins(directory / "plugins_registry", clock=CLOCK, log=LOG)

    def devices(self, boot="boot-1"):
        record = DeviceRecord(self.directory / "devices.json", boot)
        return Devices(as_node(self.store), record, self.plugins.get, self.cdi)

    def documents(self):
        return sorted(each.name for each in self.cdi.glob("*"))

    async def claim(self, name="claim", device="gpu-0", *pods, **fields):
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": NAME}}]}}
        obj = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}
        await self.store.create(RESOURCE_CLAIM, obj, "default")
        result = {"request": "gpu", "driver": NAME, "pool": "node-a", "device": device, **fields}
        users = [{"resource": "pods", "name": each.name, "uid": each.uid} for each in pods]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
        return await self.store.patch(RESOURCE_CLAIM, name, "default", fields={"status": status}, subresource="status")


@asynccontextmanager
async def site():
    directory = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
    here = Site(await open_store(), directory)
    (directory / "plugins_registry").mkdir()
    serving = asyncio.Event()
    task = asyncio.create_task(here.plugin.run(serving.set))
    try:
        await serving.wait()
        await here.plugins.look()
        yield here
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        shutil.rmtree(directory)


def user(name="p", claim="claim", request=None):
    use = {"name": "gpu", **({"request": request} if request else {})}
    return view(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {
                "containers": [
                    {"name": "main", "command": ["run"], "resources": {"claims": [use]}},
                    {"name": "without", "command": ["run"]},
                ],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
            },
        }
    )


async def test_a_claim_is_prepared_once_for_its_containers_and_let_go_once():
    async with site() as here:
        pod, devices = user(), here.devices()
        claim = await here.claim("claim", "gpu-0", pod)
        await devices.prepare(pod)
        await devices.prepare(pod)
        assert here.driver.calls == ["prepare"]
        with_claim, without = pod.spec.containers
        assert devices.cdi_names(pod, with_claim) == [f"{NAME}/claim={uid_of(claim)}-gpu-0"]
        assert devices.cdi_names(pod, without) == []
        await devices.release(pod.uid)
        await devices.release(pod.uid)
        assert here.driver.calls == ["prepare", "unprepare"]
        assert here.documents() == []


async def test_a_device_that_is_another_claims_here_is_waited_for_whatever_the_control_plane_believes():
    async with site() as here:
        looked = []
        record = DeviceRecord(here.directory / "devices.json", "boot-1")
        devices = Devices(as_node(here.store), record, here.plugins.get, here.cdi, looked.append)
        old, new = user("old", "first"), user("new", "second")
        await here.claim("first", "gpu-0", old)
        await devices.prepare(old)
        let_go = {"status": {"allocation": None, "reservedFor": None}}
        await here.store.patch(RESOURCE_CLAIM, "first", "default", fields=let_go, subresource="status")
        await here.claim("second", "gpu-0", new)
        with pytest.raises(DeviceProblem, match="gpu-0 is still prepared for resourceclaim 'first'"):
            await devices.prepare(new)
        assert here.driver.calls == ["prepare"]
        await devices.release(old.uid)
        assert looked == [new.uid]
        await devices.prepare(new)
        assert here.driver.calls == ["prepare", "unprepare", "prepare"]


async def test_shares_of_one_device_are_prepared_beside_each_other():
    async with site() as here:
        one, other, devices = user("one", "first"), user("other", "second"), here.devices()
        for pod, claim in ((one, "first"), (other, "second")):
            share = {"shareID": f"{1 if pod is one else 2:08x}-0000-4000-8000-000000000000"}
            await here.claim(claim, "gpu-0", pod, **share)
            await devices.prepare(pod)
        assert here.driver.calls == ["prepare", "prepare"]


async def test_a_shared_claim_is_let_go_by_its_last_user():
    async with site() as here:
        first, second, devices = user("a"), user("b"), here.devices()
        await here.claim("claim", "gpu-0", first, second)
        await devices.prepare(first)
        await devices.prepare(second)
        await devices.release(first.uid)
        assert here.driver.calls == ["prepare"]
        await devices.release(second.uid)
        assert here.driver.calls == ["prepare", "unprepare"]


async def test_after_a_crash_between_prepare_and_its_record_the_device_is_still_let_go():
    async with site() as here:
        pod = user()
        await here.claim("claim", "gpu-0", pod)
        here.driver.error = "the agent never hears that this worked"
        with pytest.raises(DeviceProblem, match="never hears"):
            await here.devices().prepare(pod)
        assert len(here.documents()) == 1
        here.driver.error = None
        assert await here.devices().audit([]) == []  # the next agent, when the Pod is gone
        assert here.documents() == []


async def test_what_vanished_with_a_restart_of_the_machine_is_prepared_again():
    async with site() as here:
        pod = user()
        await here.claim("claim", "gpu-0", pod)
        await here.devices().prepare(pod)
        [path] = here.cdi.glob("*")
        path.unlink()
        await here.devices("boot-2").prepare(pod)
        assert here.driver.calls == ["prepare", "prepare"]
        assert len(here.documents()) == 1


async def test_vanished_documents_are_found_out_without_a_restart_too():
    async with site() as here:
        pod, devices = user(), here.devices()
        await here.claim("claim", "gpu-0", pod)
        await devices.prepare(pod)
        [path] = here.cdi.glob("*")
        path.unlink()
        await devices.prepare(pod)
        assert len(here.documents()) == 1


async def test_a_claim_made_anew_under_the_same_name_is_another():
    async with site() as here:
        pod = user()
        old = await here.claim("claim", "gpu-0", pod)
        stale = dra.Claim(namespace="default", name="claim", uid=uid_of(old))
        await here.store.delete(RESOURCE_CLAIM, "claim", "default")
        await here.claim("claim", "gpu-1", pod)
        answer = await here.plugin.prepare(stale)
        assert "is gone; another has its name now" in answer.error
        assert here.documents() == []


async def test_prepare_waits_for_an_unprepare_under_way_and_is_then_done_anew():
    async with site() as here:
        first, second, devices = user("a"), user("b"), here.devices()
        await here.claim("claim", "gpu-0", first, second)
        await devices.prepare(first)
        await asyncio.gather(devices.release(first.uid), devices.prepare(second))
        assert here.driver.calls[-1] == "prepare"
        assert len(here.documents()) == 1
        assert devices.cdi_names(second, second.spec.containers[0])


async def test_what_cannot_be_unprepared_stays_recorded_and_is_tried_again():
    async with site() as here:
        pod, devices = user(), here.devices()
        await here.claim("claim", "gpu-0", pod)
        await devices.prepare(pod)
        here.driver.error = "the directory is read-only"
        with pytest.raises(DeviceProblem, match=f"driver {NAME}: unprepare claim 'claim': the directory is read-only"):
            await devices.release(pod.uid)
        [failure] = await devices.audit([])
        assert "read-only" in failure
        here.driver.error = None
        assert await here.devices().audit([]) == []
        assert here.documents() == []


async def test_a_driver_that_is_not_there_is_named():
    async with site() as here:
        pod = user()
        await here.claim("claim", "gpu-0", pod)
        devices = Devices(
            as_node(here.store), DeviceRecord(here.directory / "r.json", "b"), lambda name: None, here.cdi
        )
        with pytest.raises(DeviceProblem, match=f"driver {NAME} is not registered on this node"):
            await devices.prepare(pod)
        await devices.release(pod.uid)  # a Pod that never got its device can go without its driver


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(
            {"reservedFor": None}, "is not reserved for Pod default/p", id="a claim that others have reserved"
        ),
        pytest.param({"allocation": None, "reservedFor": None}, "is not allocated", id="a claim without devices"),
    ],
)
async def test_a_claim_that_is_not_the_pods_to_use_is_refused(fields, words):
    async with site() as here:
        pod = user()
        await here.claim("claim", "gpu-0", pod)
        if "allocation" in fields:
            await here.store.patch(
                RESOURCE_CLAIM, "claim", "default", fields={"status": {"reservedFor": None}}, subresource="status"
            )
        await here.store.patch(RESOURCE_CLAIM, "claim", "default", fields={"status": fields}, subresource="status")
        with pytest.raises(DeviceProblem, match=words):
            await here.devices().prepare(pod)
        assert here.driver.calls == []


async def test_a_claim_that_does_not_exist_is_named():
    async with site() as here:
        with pytest.raises(DeviceProblem, match="resourceclaim 'nothing' not found"):
            await here.devices().prepare(user(claim="nothing"))


async def test_a_container_gets_the_devices_of_its_request_only():
    async with site() as here:
        pod = user(request="other")
        await here.claim("claim", "gpu-0", pod)
        devices = here.devices()
        await devices.prepare(pod)
        assert devices.cdi_names(pod, pod.spec.containers[0]) == []
        same = user(request="gpu")
        assert devices.cdi_names(same, same.spec.containers[0])


async def test_a_driver_that_starts_again_is_found_again():
    async with site() as here:
        before = here.plugins.get(NAME)
        here.plugin.registry.unlink()
        await here.plugins.look()
        assert here.plugins.names() == []
        again = Plugin(here.driver, "node-a", as_node(here.store), here.directory, clock=CLOCK, log=LOG)
        serving = asyncio.Event()
        task = asyncio.create_task(again.run(serving.set))
        await serving.wait()
        await here.plugins.look()
        assert here.plugins.get(NAME) == before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


KILLED_DRIVER = """
import asyncio, sys
from pathlib import Path
import structlog
from headrace.devices.driver.services import serve_registration

async def main():
    directory = Path(sys.argv[1])
    socket, log = directory / "plugins_registry" / "killed.sock", structlog.get_logger()
    server = await serve_registration(socket, "killed.example.com", directory / "dra.sock", object(), log)
    print("ready", flush=True)
    await server.wait_for_termination()

asyncio.run(main())
"""


async def test_a_driver_that_was_killed_is_known_no_more_though_its_socket_is_still_there():
    async with site() as here:
        command = (sys.executable, "-c", KILLED_DRIVER, str(here.directory))
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert await process.stdout.readline() == b"ready\n"
            await here.plugins.look()
            assert here.plugins.names() == [NAME, "killed.example.com"]
        finally:
            process.kill()
            await process.wait()
        assert (here.directory / "plugins_registry" / "killed.sock").is_socket()
        await here.plugins.look()
        assert here.plugins.names() == [NAME]


async def test_a_socket_that_does_not_answer_is_asked_again_until_it_does():
    async with site() as here:
        here.plugin.registry.rename(here.directory / "kept")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(here.plugin.registry))
        listener.close()  # what a killed driver leaves
        await here.plugins.look()
        assert here.plugins.names() == []
        (here.directory / "kept").rename(here.plugin.registry)
        await here.plugins.look()
        assert here.plugins.names() == [NAME]


async def test_a_driver_registers_while_others_never_answer_and_after_the_directory_was_taken_away():
    async with site() as here:
        registry = here.plugin.registry.parent
        here.plugin.registry.rename(here.directory / "kept")
        shutil.rmtree(registry)
        await here.plugins.look()
        assert here.plugins.names() == []
        (here.directory / "kept").rename(here.plugin.registry)
        silent = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for name, listener in zip("az", silent, strict=True):
            listener.bind(str(registry / f"{name}.sock"))
            listener.listen()
        looking = asyncio.create_task(here.plugins.look())
        await here.plugins.changes()
        assert here.plugins.names() == [NAME]
        assert not looking.done(), "the others have time yet"
        for listener in silent:
            listener.close()
        await looking


def test_the_words_of_a_driver_fit_into_a_pods_status():
    """An answer of 3 MB made the Pod too large to be written, so its status said nothing, for ever."""
    assert Problem("Failed", "x" * 3_000_000).message == "x" * 1024 + "…"
    assert Problem("Failed", "no such device").message == "no such device"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (("CSIPlugin", "d", "/s", ("v1.DRAPlugin",)), "takes plug-ins of type DRAPlugin"),
        (("DRAPlugin", "", "/s", ("v1.DRAPlugin",)), "must not be empty"),
        (("DRAPlugin", "d", "/s", ("v1beta9.DRAPlugin",)), "one must be v1.DRAPlugin"),
    ],
)
def test_a_plugin_that_cannot_be_spoken_with_is_told_why(answer, words):
    assert words in refusal(*answer)
