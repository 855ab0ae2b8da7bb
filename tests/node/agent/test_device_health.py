"""Health of devices: what drivers stream reaches the Pods' statuses as a kubelet writes it, and silence is Unknown."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
import structlog

from headrace.api.objects import uid_of
from headrace.devices.driver.simulated import NAME, UNHEALTHY_FILE
from headrace.node.device_health import MOST_DEVICES, TIMEOUT_SECONDS, Health, HealthBook, HealthWatch
from headrace.node.device_record import DeviceRecord
from headrace.node.devices import Devices
from headrace.node.plugins import Plugin
from headrace.runtime.clock import LoopClock
from headrace.wire.generated import health_v1_pb2 as wire
from tests.node.agent.home import as_node
from tests.node.agent.test_devices import site, user

GPU = (NAME, "node-a", "gpu-0")


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def told(health=wire.HEALTHY, message="", seconds=0, device="gpu-0"):
    id = wire.DeviceIdentifier(pool_name="node-a", device_name=device)
    return wire.DeviceHealth(device=id, health=health, message=message, health_check_timeout_seconds=seconds)


@pytest.mark.parametrize(
    ("report", "health"),
    [
        (told(), Health("Healthy")),
        (told(wire.UNHEALTHY, "XID 79"), Health("Unhealthy", "XID 79")),
        (told(wire.UNKNOWN), Health("Unknown")),
        (told(7), Health("Unknown")),
        (told(wire.UNHEALTHY, "x" * 5000), Health("Unhealthy", "x" * 1024)),
    ],
    ids=["healthy", "unhealthy with what it has", "unknown", "a word of a later version", "a novel is cut"],
)
def test_a_report_is_told_in_the_words_of_a_status(report, health):
    book = HealthBook(Time())
    book.take(NAME, [report])
    assert book.of(GPU) == health


@pytest.mark.parametrize(("seconds", "lasts"), [(0, TIMEOUT_SECONDS), (5, 5.0), (-3, TIMEOUT_SECONDS), (300, 300.0)])
def test_what_is_not_told_again_in_time_is_unknown_once_and_for_all_to_see(seconds, lasts):
    now = Time()
    book = HealthBook(now)
    assert book.take(NAME, [told(seconds=seconds)]) == {GPU}
    now.now += lasts
    assert book.of(GPU) == Health("Healthy")
    assert book.expired() == set()
    now.now += 0.1
    assert book.of(GPU) == Health()
    assert book.expired() == {GPU}
    assert book.expired() == set()


def test_only_what_is_another_than_before_is_a_change():
    book = HealthBook(Time())
    assert book.take(NAME, [told(), told(device="gpu-1")]) == {GPU, (NAME, "node-a", "gpu-1")}
    assert book.take(NAME, [told(), told(device="gpu-1")]) == set()
    assert book.take(NAME, [told(wire.UNHEALTHY)]) == {GPU}
    assert book.forget("other.example.com") == set()
    assert book.forget(NAME) == {GPU, (NAME, "node-a", "gpu-1")}


def test_a_driver_that_reports_without_end_does_not_fill_the_memory():
    book = HealthBook(Time())
    assert len(book.take(NAME, [told(device=f"gpu-{at}") for at in range(MOST_DEVICES + 5)])) == MOST_DEVICES
    assert book.take(NAME, [told(wire.UNHEALTHY)]) == {GPU}


async def until(holds, seconds=60.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.02)


class Quick(LoopClock):
    """Polls and tries again soon."""

    async def sleep(self, seconds):
        await asyncio.sleep(min(seconds, 0.05))


@asynccontextmanager
async def watched(here, book, changed):
    watch = HealthWatch(here.plugins, book, changed, clock=Quick(time.time), log=structlog.get_logger())
    task = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_gpu_that_falls_off_the_bus_is_shown_in_its_pods_status():
    async with site() as here:
        book, seen = HealthBook(time.monotonic), []
        record = DeviceRecord(here.directory / "devices.json", "boot-1")
        devices = Devices(as_node(here.store), record, here.plugins.get, here.cdi, health=book.of)
        pod = user()
        claim = await here.claim("claim", "gpu-0", pod)
        await devices.prepare(pod)
        with_claim, without = pod.spec.containers
        id = f"{NAME}/claim={uid_of(claim)}-gpu-0"

        def status():
            return devices.allocated_status(pod, with_claim)

        assert status() == [{"name": "claim:gpu", "resources": [{"resourceID": id, "health": "Unknown"}]}]
        async with watched(here, book, lambda changed: seen.extend(changed)):
            await until(lambda: book.of(GPU) == Health("Healthy"))
            (here.directory / UNHEALTHY_FILE).write_text("gpu-0 XID 79: fell off the bus\n")
            await until(lambda: book.of(GPU).status == "Unhealthy")
            ill = {"resourceID": id, "health": "Unhealthy", "message": "XID 79: fell off the bus"}
            assert status() == [{"name": "claim:gpu", "resources": [ill]}]
            assert devices.allocated_status(pod, without) == []
            assert devices.users_of([GPU]) == {pod.uid}
            assert devices.users_of([(NAME, "node-a", "gpu-1")]) == set()
            (here.directory / UNHEALTHY_FILE).unlink()
            await until(lambda: book.of(GPU) == Health("Healthy"))
        assert seen.count(GPU) >= 3


async def test_a_container_that_names_a_request_is_told_of_its_devices_alone():
    async with site() as here:
        pod, devices = user(request="gpu"), here.devices()
        other = user("q", "other", request="nic")
        await here.claim("claim", "gpu-0", pod)
        await here.claim("other", "gpu-1", other)
        await devices.prepare(pod)
        await devices.prepare(other)
        assert [each["name"] for each in devices.allocated_status(pod, pod.spec.containers[0])] == ["claim:gpu/gpu"]
        assert devices.allocated_status(other, other.spec.containers[0]) == []


async def test_a_driver_that_leaves_takes_its_word_with_it_and_a_new_one_is_heard():
    async with site() as here:
        book = HealthBook(time.monotonic)
        async with watched(here, book, lambda changed: None):
            await until(lambda: book.of(GPU) == Health("Healthy"))
            registered = dict(here.plugins._known)
            here.plugins._known.clear()
            here.plugins._changed.set()
            here.plugins._changed = asyncio.Event()
            await until(lambda: book.of(GPU) == Health())
            here.plugins._known.update(registered)
            here.plugins._changed.set()
            here.plugins._changed = asyncio.Event()
            await until(lambda: book.of(GPU) == Health("Healthy"))


@pytest.mark.parametrize("service", ["", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"])
async def test_a_driver_is_asked_in_the_version_that_it_serves(service):
    async with site() as here:
        book = HealthBook(time.monotonic)
        known = here.plugins.get(NAME)
        assert known.health == "v1.DRAResourceHealth"
        for key, (identity, _) in here.plugins._known.items():
            here.plugins._known[key] = (identity, Plugin(known.name, known.endpoint, known.service, service))
        async with watched(here, book, lambda changed: None):
            if service:
                await until(lambda: book.of(GPU) == Health("Healthy"))
            else:
                await asyncio.sleep(0.3)
                assert book.of(GPU) == Health()


class Odd(HealthBook):
    """Cannot take the first report."""

    taken = 0

    def take(self, driver, devices):
        self.taken += 1
        if self.taken == 1:
            raise ValueError("nobody thought of this")
        return super().take(driver, devices)


async def test_a_report_that_nobody_thought_of_ends_no_agent_and_the_next_one_counts():
    async with site() as here:
        book = Odd(time.monotonic)
        async with watched(here, book, lambda changed: None):
            await until(lambda: book.of(GPU) == Health("Healthy"))
        assert book.taken >= 2
