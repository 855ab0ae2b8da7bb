"""The Podman runtime on a real service, runc and real cgroups: every trap that was met is a test here."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.node import logs
from headrace.node.cgroups import files, hierarchy
from headrace.node.keeper import identity
from headrace.node.logs import LogQuery
from headrace.node.runtimes.podman import PodmanRuntime
from headrace.node.runtimes.podman_socket import Podman
from headrace.node.runtimes.protocol import (
    ApplyFailed,
    ContainerSpec,
    ContainerState,
    Device,
    Limits,
    MemoryInUse,
    Mount,
    NotRunning,
    RuntimeUnavailable,
    StartFailed,
)
from tests.node.eventually import eventually
from tests.node.runtimes.podman_service import GREETING, IMAGE, Service

pytestmark = [pytest.mark.podman, pytest.mark.xdist_group("podman")]
MEBIBYTE = 1 << 20
NODE = next((each for each in ("/dev/fuse", "/dev/loop-control", "/dev/kmsg") if os.path.exists(each)), "/dev/null")
HOLD = ("sh", "-c", "dd if=/dev/zero of=/dev/shm/held bs=1M count=$0 2>/dev/null || exit $?; echo held; sleep 600")
"""Holds so many mebibytes of shared memory, which cannot be reclaimed."""


@dataclass
class Home:
    runtime: PodmanRuntime
    service: Service
    directory: Path
    podman: Podman
    ids: list[str] = field(default_factory=list)

    def spec(self, id: str, *argv: str, **limits: int) -> ContainerSpec:
        return ContainerSpec(
            id=id,
            pod_uid="uid",
            pod="default/pod",
            container=f"c-{id}",
            argv=argv,
            env={},
            working_dir="",
            log_path=str(self.directory / f"{id}.log"),
            limits=Limits(**limits),
            image=IMAGE,
        )

    async def start(self, id: str, *argv: str, **limits: int) -> ContainerState:
        return await self.runtime.start(self.spec(id, *argv, **limits))

    def log(self, id: str) -> list[str]:
        path = self.directory / f"{id}.log"
        return [line.split(" ", 3)[3] for line in path.read_text().splitlines()] if path.exists() else []

    async def state(self, id: str) -> ContainerState | None:
        return {state.id: state for state in await self.runtime.list()}.get(id)

    async def ended(self, id: str) -> ContainerState:
        async def look() -> ContainerState | None:
            state = await self.state(id)
            return state if state is not None and state.state == "exited" else None

        return await eventually(look)

    def name(self, id: str) -> str:
        return self.runtime._name(id)

    async def inspect(self, id: str) -> Any:
        return await self.podman.call("GET", f"/containers/{self.name(id)}/json")

    def file_of(self, pid: int, controller: str, name: str) -> Path:
        return hierarchy.find().places(pid)[controller] / name


@pytest.fixture
async def home(service: Service, tmp_path: Path) -> AsyncIterator[Home]:
    runtime = await PodmanRuntime.open(tmp_path, service.socket)
    podman = Podman(service.socket)
    home = Home(runtime, service, tmp_path, podman)
    yield home
    for state in await runtime.list():
        if state.state == "running":
            await runtime.kill(state.id)
            await home.ended(state.id)
        await runtime.remove(state.id)
    await podman.close()
    await runtime.close()


# ---- containers


async def test_a_container_runs_tells_its_log_in_the_cri_format_and_its_exit_code(home: Home) -> None:
    await home.start("a", "sh", "-c", "echo out; echo err >&2; exit 3")
    state = await home.ended("a")
    assert (state.exit_code, state.oom_killed, state.pod_uid, state.container) == (3, False, "uid", "c-a")
    assert sorted(home.log("a")) == ["err", "out"]
    pieces = [piece async for piece in logs.read(home.directory / "a.log", LogQuery(timestamps=True), lambda: False)]
    assert sorted(line.split(b" ", 1)[1] for line in b"".join(pieces).splitlines()) == [b"err", b"out"]


async def test_its_log_stays_when_it_is_removed(home: Home) -> None:
    await home.start("a", "echo", "told")
    await home.ended("a")
    await home.runtime.remove("a")
    assert await home.state("a") is None
    assert home.log("a") == ["told"]
    await home.runtime.remove("a")  # once more is no error


async def test_a_second_start_of_an_id_answers_the_first(home: Home) -> None:
    first = await home.start("a", "sleep", "600")
    second, third = await asyncio.gather(home.start("a", "sleep", "600"), home.start("a", "false"))
    assert first.pid == second.pid == third.pid
    assert len(await home.runtime.list()) == 1


async def test_an_id_that_has_ended_is_not_started_again(home: Home) -> None:
    await home.start("a", "echo", "once")
    await home.ended("a")
    assert (await home.start("a", "echo", "once")).state == "exited"
    assert home.log("a") == ["once"]


async def test_another_agent_of_the_same_directory_finds_it_and_one_of_another_does_not(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = await home.start("a", "sleep", "600", cpu_milli=300)
    again = await PodmanRuntime.open(home.directory, home.service.socket)
    [found] = await again.list()
    assert (found.id, found.pid, found.start_ticks) == ("a", first.pid, first.start_ticks)
    assert (await again.read("a")).cpu_milli == 300
    await again.close()
    other = await PodmanRuntime.open(tmp_path_factory.mktemp("other"), home.service.socket)
    assert await other.list() == []
    await other.close()


async def test_what_was_created_but_never_started_is_swept_away_and_started_anew(home: Home) -> None:
    spec = home.spec("a", "echo", "started")
    body = {
        "name": home.name("a"),
        "image": IMAGE,
        "command": ["true"],
        "labels": {"headrace.dev/instance": home.runtime._instance},
    }
    await home.podman.call("POST", "/containers/create", body=body)
    assert await home.runtime.list() == []
    await home.runtime.start(spec)
    await home.ended("a")
    assert home.log("a") == ["started"]


async def test_signals_reach_the_first_process_and_a_kill_all_of_them(home: Home) -> None:
    await home.start("a", "sh", "-c", "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.1; done")
    await eventually(lambda: "ready" in home.log("a"))
    await home.runtime.signal("a", 15)
    assert (await home.ended("a")).exit_code == 7
    await home.runtime.signal("a", 15)  # it has ended: no error
    await home.runtime.signal("never-was", 15)
    state = await home.start("b", "sh", "-c", "sleep 601 & sleep 602")
    await home.runtime.kill("b")
    ended = await home.ended("b")
    assert (ended.exit_code, ended.oom_killed) == (137, False)
    assert not identity.runs(state.pid, state.start_ticks)


async def test_environment_mounts_user_and_working_directory_are_as_asked(home: Home, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given/file").write_text("content\n")
    # What is said on stderr is left out: the two streams are read apart, and nobody promises their order in the log.
    script = "echo $COLOUR; cat /given/file; id -u; id -g; touch /given/new 2>/dev/null || echo refused; echo $PWD"
    spec = replace(
        home.spec("a", "sh", "-c", script),
        env={"COLOUR": "blue"},
        mounts=[Mount(str(tmp_path / "given"), "/given", read_only=True)],
        uid=1000,
        gid=1001,
        working_dir="/tmp",
    )
    await home.runtime.start(spec)
    await home.ended("a")
    assert home.log("a") == ["blue", "content", "1000", "1001", "refused", "/tmp"]


async def test_a_device_is_made_inside_and_may_be_used_as_permitted(home: Home) -> None:
    script = ": < /dev/given0 && echo reads; (: >> /dev/given0) && echo writes || echo refused"
    spec = replace(
        home.spec("a", "sh", "-c", script),
        devices=[Device(NODE, "/dev/given0", "r")],
        mounts=[Mount(NODE, "/dev/given0")],
    )
    await home.runtime.start(spec)
    await home.ended("a")
    said = set(home.log("a"))
    assert {"reads", "refused"} <= said
    assert "writes" not in said


async def test_changes_tell_of_starts_and_ends(home: Home) -> None:
    told: set[str] = set()

    async def follow() -> None:
        async for id in home.runtime.changes():
            told.add(id)

    task = asyncio.create_task(follow())
    await home.start("a", "sleep", "600")
    await eventually(lambda: "a" in told)
    told.clear()
    await home.runtime.kill("a")
    await eventually(lambda: "a" in told)
    task.cancel()


# ---- images


async def test_without_a_command_the_image_decides_what_runs_as_whom_and_where(home: Home) -> None:
    await home.runtime.start(replace(home.spec("a"), image=GREETING, image_entrypoint=True))
    await home.runtime.start(replace(home.spec("b", "you"), image=GREETING, image_entrypoint=True))
    own = replace(home.spec("c", "sh", "-c", "id -u; echo $PWD $FROM"), image=GREETING)
    await home.runtime.start(own)
    for id in ("a", "b", "c"):
        await home.ended(id)
    assert (home.log("a"), home.log("b")) == (["greeting nobody"], ["greeting you"])
    assert home.log("c") == ["1234", "/work image"]


@pytest.mark.parametrize(
    ("image", "policy", "reason", "words"),
    [
        ("localhost/absent:1", "Never", "ErrImageNeverPull", "is not present with pull policy of Never"),
        ("127.0.0.1:1/absent:1", "", "ErrImagePull", 'Failed to pull image "127.0.0.1:1/absent:1"'),
        ("127.0.0.1:1/absent", "Always", "ErrImagePull", "Failed to pull image"),
        ("Not An Image", "Never", "InvalidImageName", "Not An Image"),
    ],
)
async def test_an_image_that_cannot_be_had_is_told_with_kubernetes_reason(
    home: Home, image: str, policy: str, reason: str, words: str
) -> None:
    with pytest.raises(StartFailed) as failed:
        await home.runtime.start(replace(home.spec("a", "true"), image=image, pull_policy=policy))
    assert failed.value.reason == reason
    assert words in str(failed.value)
    assert await home.runtime.list() == []


async def test_an_image_that_would_run_as_root_is_refused_where_that_is_forbidden(home: Home) -> None:
    with pytest.raises(StartFailed, match="image will run as root") as failed:
        await home.runtime.start(replace(home.spec("a", "true"), non_root=True))
    assert failed.value.reason == "CreateContainerConfigError"
    await home.runtime.start(replace(home.spec("b", "true"), non_root=True, uid=5))
    await home.runtime.start(replace(home.spec("c", "true"), non_root=True, image=GREETING))


async def test_a_command_that_does_not_exist_fails_the_start_and_leaves_nothing(home: Home) -> None:
    with pytest.raises(StartFailed, match="no-such-command"):
        await home.start("a", "no-such-command")
    assert await home.podman.call("GET", "/containers/json", {"all": "true"}) == []


# ---- limits


async def test_limits_are_read_from_the_cgroup_while_podman_tells_old_ones(home: Home) -> None:
    state = await home.start("a", "sleep", "600", cpu_milli=500, memory_bytes=128 * MEBIBYTE)
    new = Limits(1500, 64 * MEBIBYTE, 250)
    assert await home.runtime.apply("a", new) == new
    assert await home.runtime.read("a") == new
    assert files.read_number(home.file_of(state.pid, "memory", "memory.limit_in_bytes")) == 64 * MEBIBYTE
    assert (await home.inspect("a"))["HostConfig"]["Memory"] in (128 * MEBIBYTE, 64 * MEBIBYTE)  # before 5.1 the old


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(Limits(cpu_milli=5), id="5m need a period of a second"),
        pytest.param(Limits(cpu_milli=1), id="1m is the least"),
        pytest.param(Limits(memory_bytes=2048 * MEBIBYTE), id="memory grows beyond what swap was"),
        pytest.param(Limits(memory_bytes=32 * MEBIBYTE), id="memory shrinks"),
        pytest.param(Limits(memory_bytes=100_000_001), id="bytes that are no whole pages"),
        pytest.param(Limits(), id="unlimited"),
        pytest.param(Limits(cpu_milli=99_000), id="more CPUs than there are"),
    ],
)
async def test_limits_are_set_with_swap_and_read_back(home: Home, limits: Limits) -> None:
    state = await home.start("a", "sleep", "600", cpu_milli=500, memory_bytes=128 * MEBIBYTE)
    wanted = replace(limits, cpu_shares_milli=100)
    for each in (wanted, Limits(200, 64 * MEBIBYTE, 100), wanted):
        assert await home.runtime.apply("a", each) == each
        assert await home.runtime.read("a") == each
        both = home.file_of(state.pid, "memory", "memory.memsw.limit_in_bytes")
        if both.exists():
            memory = home.file_of(state.pid, "memory", "memory.limit_in_bytes")
            assert files.read_number(both) == files.read_number(memory)


async def test_other_resources_keep_their_values(home: Home) -> None:
    state = await home.start("a", "sleep", "600", memory_bytes=64 * MEBIBYTE)
    pids = home.file_of(state.pid, "pids", "pids.max")
    files.write(pids, "1024")
    await home.runtime.apply("a", Limits(300, 96 * MEBIBYTE))
    assert files.read(pids) == "1024"


@pytest.mark.parametrize("limits", [Limits(cpu_milli=0), Limits(memory_bytes=0), Limits(cpu_milli=-5)])
async def test_a_limit_of_nothing_is_refused_before_podman_would_take_it(home: Home, limits: Limits) -> None:
    await home.start("a", "sleep", "600", cpu_milli=500, memory_bytes=64 * MEBIBYTE)
    with pytest.raises(ApplyFailed, match="must be at least"):
        await home.runtime.apply("a", limits)
    assert await home.runtime.read("a") == Limits(500, 64 * MEBIBYTE)
    with pytest.raises(StartFailed, match="must be at least"):
        await home.runtime.start(replace(home.spec("b", "true"), limits=limits))


async def test_memory_below_what_is_in_use_is_refused_and_nothing_changes(home: Home) -> None:
    await home.start("a", *HOLD, "40", cpu_milli=1000, memory_bytes=200 * MEBIBYTE)
    await eventually(lambda: "held" in home.log("a"))
    before = await home.runtime.read("a")
    with pytest.raises(MemoryInUse, match="in use") as refused:
        await home.runtime.apply("a", Limits(500, 16 * MEBIBYTE))
    assert refused.value.usage_bytes > refused.value.limit_bytes == 16 * MEBIBYTE
    assert await home.runtime.read("a") == before
    assert (await home.state("a")).state == "running"  # type: ignore[union-attr]


async def test_what_is_half_applied_is_put_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Podman answers 500 to a swap below memory, but memory has changed by then."""
    await home.start("a", "sleep", "600", cpu_milli=500, memory_bytes=128 * MEBIBYTE)
    before = await home.runtime.read("a")
    asked = Podman.call

    async def half(self: Podman, method: str, path: str, *args: Any, **more: Any) -> Any:
        if path.endswith("/update"):
            more["body"]["memory"]["swap"] = 32 * MEBIBYTE
        return await asked(self, method, path, *args, **more)

    monkeypatch.setattr(Podman, "call", half)
    with pytest.raises(ApplyFailed, match=r"^Podman Update Failure: ") as failed:
        await home.runtime.apply("a", Limits(1230, 64 * MEBIBYTE))
    assert failed.value.restored
    assert await home.runtime.read("a") == before


async def test_a_hand_edit_of_the_cgroup_is_read_and_repaired(home: Home) -> None:
    state = await home.start("a", "sleep", "600", cpu_milli=500)
    files.write(home.file_of(state.pid, "cpu", "cpu.cfs_quota_us"), "33000")
    assert (await home.runtime.read("a")).cpu_milli == 330
    assert (await home.runtime.apply("a", Limits(500))).cpu_milli == 500


async def test_limits_are_put_back_after_the_container_was_restarted(home: Home) -> None:
    """A restart brings those of the creation back: 200 MiB here, never told by anything but the cgroup."""
    told: set[str] = set()

    async def follow() -> None:
        async for id in home.runtime.changes():
            told.add(id)

    task = asyncio.create_task(follow())
    first = await home.start("a", "sleep", "600", cpu_milli=1000, memory_bytes=200 * MEBIBYTE)
    wanted = await home.runtime.apply("a", Limits(250, 40 * MEBIBYTE))
    await eventually(lambda: "a" in told)
    await home.podman.call("POST", f"/containers/{home.name('a')}/restart", {"t": "0"}, seconds=30)
    began = time.monotonic()

    async def settled() -> bool:
        state = await home.state("a")
        return (
            state is not None
            and state.state == "running"
            and state.pid != first.pid
            and await home.runtime.read("a") == wanted
        )

    await eventually(settled)
    print(f"limits back after {(time.monotonic() - began) * 1000:.0f} ms")
    task.cancel()


async def test_a_paused_container_is_limited_and_can_be_killed(home: Home) -> None:
    await home.start("a", "sleep", "600", cpu_milli=500)
    await home.podman.call("POST", f"/containers/{home.name('a')}/pause")
    assert (await home.state("a")).state == "running"  # type: ignore[union-attr]
    assert (await home.runtime.apply("a", Limits(700))).cpu_milli == 700
    await home.runtime.kill("a")
    assert (await home.ended("a")).exit_code == 137


async def test_what_does_not_run_has_no_limits(home: Home) -> None:
    await home.start("a", "true", cpu_milli=500)
    await home.ended("a")
    for id in ("a", "never-was"):
        with pytest.raises(NotRunning):
            await home.runtime.read(id)
        with pytest.raises(NotRunning):
            await home.runtime.apply(id, Limits(100))
        assert await home.runtime.metered(id) is None


async def test_an_update_while_it_is_removed_has_a_defined_answer(home: Home) -> None:
    await home.start("a", "sleep", "600", cpu_milli=500)
    results = await asyncio.gather(
        *(home.runtime.apply("a", Limits(100 + number)) for number in range(5)),
        home.podman.call("DELETE", f"/containers/{home.name('a')}", {"force": "true", "timeout": "0"}),
        return_exceptions=True,
    )
    for each in results[:-1]:
        assert isinstance(each, Limits | ApplyFailed), each
    with pytest.raises(NotRunning):
        await home.runtime.read("a")


async def test_an_oom_kill_is_recognised_although_podman_does_not_tell(home: Home) -> None:
    await home.start(
        "a", "sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1; exit $?", memory_bytes=40 * MEBIBYTE
    )
    state = await home.ended("a")
    assert (state.exit_code, state.oom_killed) == (137, True)
    # Holds too much with its first breath: it may have ended before its start is answered.
    for id in ("b", "c", "d"):
        started = await home.start(id, *HOLD, "60", memory_bytes=40 * MEBIBYTE)
        assert (await home.ended(id)).oom_killed
        assert started.oom_killed == (started.state == "exited")


async def test_one_that_was_killed_otherwise_or_was_refused_leaves_no_watch(home: Home) -> None:
    await home.start("a", "sleep", "600", memory_bytes=40 * MEBIBYTE)
    await home.runtime.kill("a")
    ended = await home.ended("a")
    assert (ended.exit_code, ended.oom_killed) == (137, False)
    with pytest.raises(StartFailed, match="no-such-command"):
        await home.start("b", "no-such-command")
    assert home.runtime._watches == {}


async def test_usage_is_measured(home: Home) -> None:
    await home.start("a", "sh", "-c", "while :; do :; done", cpu_milli=200)
    found = await home.runtime.metered("a")
    assert found is not None
    workload, meter = found
    assert workload == "default/pod/c-a"
    usage = await eventually(lambda: (seen := meter.read(time.time())).throttled_periods >= 2 and seen)
    meter.close()
    assert 0 < usage.cpu_seconds < 2


# ---- containers that were here before


async def somebodys(home: Home) -> str:
    """A container that was made without us, not started yet."""
    rlimits = [{"type": name, "soft": 1024, "hard": 1024} for name in ("nofile", "nproc")]
    body = {
        "name": "own",
        "image": IMAGE,
        "command": ["sleep", "600"],
        "netns": {"nsmode": "host"},
        "r_limits": rlimits,
    }
    made = (await home.podman.call("POST", "/containers/create", body=body))["Id"]
    return str(made)


async def test_an_adopted_container_is_kept_over_restarts_of_the_agent_and_let_go_unharmed(home: Home) -> None:
    own = await somebodys(home)
    spec = replace(home.spec("a"), adopted=own)
    try:
        with pytest.raises(StartFailed, match="does not run"):
            await home.runtime.start(spec)
        await home.podman.call("POST", f"/containers/{own}/start")
        state = await home.runtime.start(spec)
        with pytest.raises(StartFailed, match="has a Pod already"):
            await home.runtime.start(replace(spec, id="b"))
        again = await PodmanRuntime.open(home.directory, home.service.socket)
        assert [(each.id, each.pid, each.pod_uid) for each in await again.list()] == [("a", state.pid, "uid")]
        assert (await again.apply("a", Limits(300, 64 * MEBIBYTE))).cpu_milli == 300
        assert again.release("a")
        assert await again.list() == []
        await again.close()
        assert (await home.podman.call("GET", f"/containers/{own}/json"))["State"]["Running"]
    finally:
        home.runtime.release("a")
        await home.podman.call("DELETE", f"/containers/{own}", {"force": "true", "timeout": "0"})


async def test_one_that_is_to_be_stopped_with_its_pod_is_not_let_go(home: Home) -> None:
    own = await somebodys(home)
    await home.podman.call("POST", f"/containers/{own}/start")
    await home.runtime.start(replace(home.spec("a"), adopted=own, on_delete="Stop"))
    assert not home.runtime.release("a")
    await home.runtime.kill("a")
    await home.ended("a")
    await home.runtime.remove("a")
    assert await home.podman.call("GET", "/containers/json", {"all": "true"}) == []


# ---- a service that hangs, and one that is started anew


async def test_a_service_that_hangs_is_left_after_the_time_and_used_again_when_it_answers(home: Home) -> None:
    await home.start("a", "sleep", "600", cpu_milli=500)
    await home.start(
        "doomed", "sleep", "600"
    )  # a call that was given up may still take effect when the service goes on
    impatient = await PodmanRuntime.open(home.directory, home.service.socket, call_seconds=1)
    found = {each.id for each in await impatient.list()}
    process = home.service.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        assert (await impatient.read("a")).cpu_milli == 500
        began = time.monotonic()
        with pytest.raises(ApplyFailed, match=r"did not answer .* within 1 s$"):
            await impatient.apply("a", Limits(300))
        with pytest.raises(StartFailed, match="did not answer"):
            await impatient.start(home.spec("b", "true"))
        with pytest.raises(RuntimeUnavailable, match="did not answer"):
            await impatient.kill("doomed")
        assert time.monotonic() - began < 8
    finally:
        process.send_signal(signal.SIGCONT)

    async def applied() -> bool:
        """What was given up may still come late; whoever holds a container to its limits tries again."""
        try:
            return (await impatient.apply("a", Limits(400))).cpu_milli == 400
        except ApplyFailed:
            return False

    await eventually(applied, seconds=20)
    assert found == {"a", "doomed"}
    await impatient.close()


async def test_all_are_told_again_when_the_stream_of_events_was_broken(home: Home) -> None:
    await home.start("a", "sleep", "600")
    told: list[str] = []

    async def follow() -> None:
        async for id in home.runtime.changes():
            told.extend([id])

    task = asyncio.create_task(follow())
    await eventually(lambda: told)
    home.service.stop()
    told.clear()
    home.service.serve()
    await eventually(lambda: told == ["a"])
    assert (await home.state("a")).state == "running"  # type: ignore[union-attr]
    task.cancel()
