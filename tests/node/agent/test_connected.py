"""A server, an agent and a driver as in production: TLS, join token, HTTP, the gRPC stream, unix sockets, processes."""

import asyncio
import time
from contextlib import asynccontextmanager

import grpc
import pytest
import structlog

from headrace.api.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from headrace.apiserver.tokens import create_join_token, revoke_user
from headrace.client.http import Client
from headrace.client.kubeconfig import load
from headrace.devices.driver.plugin import Plugin
from headrace.devices.driver.simulated import UNHEALTHY_FILE, SimulatedGpus
from headrace.node import connected
from headrace.node.agent import Settings
from headrace.node.certificate import Credentials
from headrace.node.connected import Server
from headrace.node.joining import JoinFailed, cluster
from headrace.node.machine import this_machine
from headrace.runtime.clock import LoopClock
from headrace.serve.home import HomeSettings, home
from headrace.store.kubernetes import KubernetesStore
from headrace.wire.generated import resize_pb2 as wire
from headrace.wire.generated.resize_pb2_grpc import NodeAgentStub, ResourceManagerStub
from tests.node.agent.home import create, is_gone, is_running, pod, until
from tests.node.agent.test_real import log_text, process_runtime, shell

CLOCK = LoopClock(time.time)


class InAYear(LoopClock):
    """Shows a time at which certificates of today are old; long sleeps begun before `awake` end with it."""

    def __init__(self):
        super().__init__(lambda: time.time() + 300 * 86400)
        self.awake = asyncio.Event()

    async def sleep(self, seconds):
        if seconds < 60 or self.awake.is_set():
            await super().sleep(seconds)
        else:
            await self.awake.wait()


class World:
    """A running server with one agent, seen as its administrator."""

    def __init__(self, store, client, running, port, server, credentials, directory):
        self.store, self.client, self.running, self.port = store, client, running, port
        self.server, self.credentials, self.directory = server, credentials, directory

    async def tells_health(self, health):
        """The health of the first device of the Pod p, once its status says so."""

        def first(pod):
            [container] = pod["status"]["containerStatuses"]
            found = container.get("allocatedResourcesStatus") or [{"resources": [{}]}]
            return found[0]["resources"][0]

        async def read():
            return first(await self.store.get(POD, "p", "default"))

        return await eventually(read, lambda device: device.get("health") == health, seconds=90)

    async def log(self, name, **query):
        return await self.client.text(f"/api/v1/namespaces/default/pods/{name}/log", query=query)

    def agents_channel(self, client="admin"):
        pki = self.running.pki
        tls = grpc.ssl_channel_credentials(
            pki.ca_pem(), pki.key(client).read_bytes(), pki.certificate(client).read_bytes()
        )
        return grpc.aio.secure_channel(f"127.0.0.1:{self.port}", tls)


@asynccontextmanager
async def world(tmp_path, *, node="node-a", driver=False, clock=CLOCK):
    log = structlog.get_logger()
    settings = HomeSettings(tmp_path / "server", port=0, agents_port=0)
    async with process_runtime() as (runtime, directory), home(settings, log) as served:
        running = served.running
        async with Client(load(running.kubeconfig)) as client:
            store = KubernetesStore(client)
            server = Server(running.url, f"127.0.0.1:{served.agents_port}")
            credentials = Credentials(directory / "certificates")
            token = await create_join_token(store, node, running.pki.ca_hash(), time.time())
            await connected.ensure_joined(server, node, credentials, token)
            ready = asyncio.Event()
            tasks = [
                asyncio.create_task(
                    connected.run(
                        Settings(node, directory),
                        this_machine(),
                        runtime,
                        server,
                        credentials,
                        clock=clock,
                        log=log,
                        ready=ready.set,
                    )
                )
            ]
            if driver:
                tasks.append(asyncio.create_task(drive(node, server, credentials, directory, log)))
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait({waiting, *tasks}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
            assert ready.is_set(), [task.exception() for task in tasks if task.done()]
            try:
                yield World(store, client, running, served.agents_port, server, credentials, directory)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def drive(node, server, credentials, directory, log):
    async with Client(cluster(server.url, credentials)) as client:
        gpus = SimulatedGpus(node, directory / "cdi")
        await Plugin(gpus, node, KubernetesStore(client), directory, clock=CLOCK, log=log).run()


async def eventually(read, what, seconds=20):
    """The value once `what(value)` holds, within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = await read()
        if what(value):
            return value
        await asyncio.sleep(0.05)
    raise AssertionError(f"never so; the last was {value}")


async def test_an_agent_joins_runs_a_pod_and_its_log_is_read_through_the_server(tmp_path):
    async with world(tmp_path) as here:
        nodes = await here.store.list(NODE)
        assert [each["metadata"]["name"] for each in nodes.items] == ["node-a"]
        assert here.credentials.key.stat().st_mode & 0o777 == 0o600
        script = "for i in 1 2 3 4 5; do echo line $i; done; sleep 1000"
        await create(here.store, pod(node=None, containers=[shell(script)], terminationGracePeriodSeconds=1))
        told = await until(here.store, is_running)
        assert told["spec"]["nodeName"] == "node-a"
        text = await eventually(lambda: here.log("p"), lambda text: "line 5" in text)
        assert text == "line 1\nline 2\nline 3\nline 4\nline 5\n"
        assert await here.log("p", tailLines="2") == "line 4\nline 5\n"
        assert await here.log("p", limitBytes="9") == "line 1\nli"
        stamped = await here.log("p", timestamps="true", tailLines="1")
        assert stamped.split(" ", 1)[1] == "line 5\n"
        assert stamped.startswith("20")
        await here.store.delete(POD, "p", "default")
        await until(here.store, is_gone)


async def test_a_followed_log_ends_with_its_container_and_none_is_lost(tmp_path):
    async with world(tmp_path) as here:
        script = "i=0; while [ $i -lt 3000 ]; do echo line-of-some-length-$i; i=$((i+1)); done"
        await create(here.store, pod(containers=[shell(script)], restartPolicy="Never"))
        await until(here.store, lambda obj: obj and obj["status"].get("phase") in ("Running", "Succeeded"))
        text = await here.log("p", follow="true")
        assert text.splitlines() == [f"line-of-some-length-{number}" for number in range(3000)]


async def test_a_claim_reaches_the_process_as_environment_and_is_let_go(tmp_path):
    async with world(tmp_path, driver=True) as here:
        slices = await eventually(lambda: here.store.list(RESOURCE_SLICE), lambda found: found.items)
        assert [each["metadata"]["name"] for each in slices.items] == ["node-a-gpu.example.com-x7k2p"]
        selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
        await here.store.create(DEVICE_CLASS, named("gpu.example.com", "DeviceClass", selectors=[selector]))
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
        await here.store.create(
            RESOURCE_CLAIM, named("one", "ResourceClaim", devices={"requests": [request]}), "default"
        )
        spec = shell("env | grep GPU_DEVICE_ | sort; sleep 1000", resources={"claims": [{"name": "gpu"}]})
        claims = [{"name": "gpu", "resourceClaimName": "one"}]
        await create(
            here.store,
            pod(node=None, containers=[spec], resourceClaims=claims, terminationGracePeriodSeconds=1),
        )
        told = await until(here.store, is_running)
        claim = await here.store.get(RESOURCE_CLAIM, "one", "default")
        await eventually(lambda: here.log("p"), lambda text: text.count("\n") == 2)
        assert log_text(here.directory, told) == [
            "GPU_DEVICE_0=gpu-0",
            f"GPU_DEVICE_0_RESOURCE_CLAIM={claim['metadata']['uid']}",
        ]
        assert len(list((here.directory / "cdi").iterdir())) == 1
        await here.tells_health("Healthy")
        (here.directory / UNHEALTHY_FILE).write_text("gpu-0 XID 79: fell off the bus\n")
        assert (await here.tells_health("Unhealthy"))["message"] == "XID 79: fell off the bus"
        await here.store.delete(POD, "p", "default")
        await until(here.store, is_gone)
        assert list((here.directory / "cdi").iterdir()) == []
        await eventually(
            lambda: here.store.get(RESOURCE_CLAIM, "one", "default"),
            lambda found: not found.get("status", {}).get("allocation"),
        )


async def test_only_what_is_admitted_is_applied_by_an_update(tmp_path):
    async with world(tmp_path) as here:
        resources = {"requests": {"cpu": "300m", "memory": "64Mi"}, "limits": {"cpu": "300m", "memory": "64Mi"}}
        spec = shell("sleep 1000", resources=resources)
        await create(here.store, pod(containers=[spec], terminationGracePeriodSeconds=1))
        await until(here.store, is_running)
        async with here.agents_channel() as channel:
            stub = NodeAgentStub(channel)
            status = await stub.GetResourceStatus(wire.GetResourceStatusRequest(workload_id="default/p/main"))
            assert (status.success, status.status.cpu_limit, status.status.memory_limit) == (True, 1, 64)
            assert (status.status.cpu_milli, status.status.memory_bytes) == (300, 64 * 2**20)
            with pytest.raises(grpc.aio.AioRpcError, match="not admitted") as refused:
                await stub.UpdateResources(wire.UpdateResourcesRequest(workload_id="default/p/main", cpu_limit=1))
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            bigger = {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}
            fields = {"spec": {"containers": [{"name": "main", "resources": bigger}]}}
            resized = await here.store.patch(POD, "p", "default", fields=fields, subresource="resize", strategic=True)
            await until(
                here.store, lambda obj: obj["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"] == "1"
            )
            revision = int(resized["metadata"]["resourceVersion"])
            answer = await stub.UpdateResources(
                wire.UpdateResourcesRequest(workload_id="default/p/main", cpu_limit=1, revision=revision)
            )
            assert (answer.success, answer.status.cpu_milli) == (True, 1000)
            assert answer.status.update_state == wire.ResourceUpdateState.SUCCESS
            manager = ResourceManagerStub(channel)
            for milli in (
                400,
                500,
                600,
                700,
                300,
                200,
            ):  # whether its watch has told the agent or not
                desired = wire.UpdateDesiredStateRequest(workload_id="default/p/main", cpu_milli=milli)
                assert (await manager.UpdateDesiredState(desired)).success
                update = wire.UpdateResourcesRequest(workload_id="default/p/main", cpu_milli=milli)
                assert (await stub.UpdateResources(update)).status.cpu_milli == milli
            with pytest.raises(grpc.aio.AioRpcError) as missing:
                await stub.GetResourceStatus(wire.GetResourceStatusRequest(workload_id="default/nobody/main"))
            assert missing.value.code() is grpc.StatusCode.NOT_FOUND
        async with here.agents_channel("viewer") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as denied:
                await NodeAgentStub(channel).UpdateResources(
                    wire.UpdateResourcesRequest(workload_id="default/p/main", cpu_limit=1)
                )
            assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_token_for_another_node_a_strange_authority_and_a_file_without_a_key_are_refused(tmp_path):
    async with world(tmp_path) as here:
        token = await create_join_token(here.store, "node-b", here.running.pki.ca_hash(), time.time())
        fresh = Credentials(tmp_path / "fresh")
        with pytest.raises(JoinFailed, match="node-c"):
            await connected.ensure_joined(here.server, "node-c", fresh, token)
        other = ".".join([*token.split(".")[:3], "0" * 64])
        with pytest.raises(JoinFailed, match="authority"):
            await connected.ensure_joined(here.server, "node-b", fresh, other)
        fresh.key.write_text("no key")
        with pytest.raises(JoinFailed, match="no certificate can be asked for 'node-b': ValueError"):
            await connected.ensure_joined(here.server, "node-b", fresh, token)
        assert not fresh.certificate.exists()


async def test_a_renewed_certificate_changes_nothing_for_what_runs(tmp_path):
    clock = InAYear()
    async with world(tmp_path, clock=clock) as here:
        await create(here.store, pod(containers=[shell("echo here; sleep 1000")], terminationGracePeriodSeconds=1))
        before = await until(here.store, is_running)
        old = here.credentials.certificate.read_bytes()
        clock.awake.set()
        await eventually(lambda: read(here.credentials.certificate), lambda now: now != old)
        async with here.agents_channel() as channel:
            await eventually(lambda: answers(NodeAgentStub(channel)), lambda yes: yes)
        after = await here.store.get(POD, "p", "default")
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]


async def read(path):
    return path.read_bytes()


async def test_a_revoked_node_loses_its_stream_within_a_second(tmp_path):
    async with world(tmp_path) as here:
        await create(here.store, pod(containers=[shell("echo here; sleep 1000")], terminationGracePeriodSeconds=1))
        await until(here.store, is_running)
        await eventually(lambda: here.log("p"), lambda text: text == "here\n")
        async with here.agents_channel() as channel:
            stub = NodeAgentStub(channel)
            assert await answers(stub)
            begun = time.monotonic()
            await revoke_user(here.store, "system:node:node-a", time.time())
            await eventually(lambda: answers(stub), lambda yes: not yes)
            assert time.monotonic() - begun < 1.0


async def answers(stub):
    try:
        await stub.GetResourceStatus(wire.GetResourceStatusRequest(workload_id="default/p/main"))
    except grpc.aio.AioRpcError as error:
        return error.code() is not grpc.StatusCode.UNAVAILABLE
    return True


def named(name, kind, **spec):
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
