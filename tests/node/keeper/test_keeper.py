"""A real keeper and real processes: what a client may ask, and what a container gets."""

import asyncio
import os
import resource
import signal
import stat
import sys
from pathlib import Path

import pytest

from headrace.node.keeper import frames, identity
from headrace.node.keeper.client import KeeperClient, KeeperRefused
from headrace.node.keeper.launch import ensure_keeper
from tests.node.eventually import eventually
from tests.node.keeper.conftest import Kept, runs


async def test_output_and_exit_code_are_there_when_the_end_is_told(kept: Kept) -> None:
    await kept.start("a", "sh", "-c", "echo out; echo err >&2; printf last; exit 3")
    state = await kept.ended("a")
    assert (state["exit_code"], state["signal"]) == (3, None)
    assert kept.lines("a") == ["out", "last"]
    assert kept.lines("a", "stderr") == ["err"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, 137), (signal.SIGSEGV, 139), (signal.SIGHUP, 129)]
)
async def test_a_signal_ends_it_with_its_number(kept: Kept, number: int, code: int) -> None:
    await kept.start("a", "sleep", "60")
    await kept.client.call("signal", {"id": "a", "number": number})
    state = await kept.ended("a")
    assert (state["exit_code"], state["signal"]) == (code, number)


async def test_many_requests_at_once_get_each_their_own_answer(kept: Kept) -> None:
    ids = [f"c{number}" for number in range(20)]
    states = await asyncio.gather(*(kept.start(id, "true") for id in ids))
    assert [state["id"] for state in states] == ids


async def test_a_start_is_idempotent_by_id(kept: Kept) -> None:
    script = ("sh", "-c", "echo once; sleep 60")
    first, *others = await asyncio.gather(*(kept.start("a", *script) for _ in range(5)))
    assert all(other["pid"] == first["pid"] for other in others)
    await eventually(lambda: kept.lines("a") == ["once"])
    await kept.client.call("kill", {"id": "a"})
    ended = await kept.ended("a")
    assert await kept.start("a", *script) == ended  # an id is used once, for ever


@pytest.mark.parametrize(
    ("argv", "fields", "words"),
    [
        pytest.param(["nosuchprogram"], {}, "executable file not found in $PATH", id="no such program"),
        pytest.param(["/etc/passwd"], {}, "Permission denied", id="not executable"),
        pytest.param(
            ["true"], {"working_dir": "/no/such"}, "working directory: /no/such: No such file", id="no directory"
        ),
        pytest.param(["true"], {"cgroups": ["/no/such"]}, "cgroup: /no/such/cgroup.procs", id="no cgroup"),
    ],
)
async def test_what_cannot_start_says_why_and_leaves_nothing(kept: Kept, argv, fields, words: str) -> None:
    with pytest.raises(KeeperRefused) as refused:
        await kept.start("a", *argv, **fields)
    assert refused.value.code == "StartFailed"
    assert words in str(refused.value)
    assert await kept.client.call("list") == []
    assert not any((kept.data_dir / "keeper/fifos").iterdir())
    assert not any((kept.data_dir / "keeper/records").iterdir())
    await kept.start("a", "true")  # the id was not used
    assert (await kept.ended("a"))["exit_code"] == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({"id": "../a"}, "id '../a'", id="an id that leaves the directory"),
        pytest.param({"argv": []}, "argv: must be a list", id="no program"),
        pytest.param({"env": {"A=B": "c"}}, "env", id="a name with an equals sign"),
        pytest.param({"log_path": "relative"}, "must be an absolute path", id="a relative log"),
        pytest.param({"mounts": [{"source": "x", "target": "/y"}]}, "source and target", id="a relative mount"),
    ],
)
async def test_wrong_requests_are_refused_with_the_field(kept: Kept, fields, words: str) -> None:
    request = {"id": "a", "argv": ["true"], "env": {}, "log_path": "/tmp/a.log", **fields}
    with pytest.raises(KeeperRefused) as refused:
        await kept.client.call("start", request)
    assert refused.value.code == "Invalid"
    assert words in str(refused.value)


async def test_a_container_has_only_what_it_was_given(kept: Kept) -> None:
    program = (
        "import os; print(sorted(os.environ)); print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1]);"
        "print(os.getsid(0) == os.getpid(), os.getcwd(), os.umask(0));"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('NoNewPrivs')]);"
        "import signal; print([int(s) for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN])"
    )
    os.environ["HEADRACE_TEST_SECRET"] = "x"
    try:
        await kept.start("a", sys.executable, "-I", "-c", program, env={"GIVEN": "1", "LC_CTYPE": "C.UTF-8"})
        await kept.ended("a")
    finally:
        del os.environ["HEADRACE_TEST_SECRET"]
    names, descriptors, session, privileges, ignored = kept.lines("a")
    assert names == "['GIVEN', 'HEADRACE_CONTAINER', 'LC_CTYPE', 'PATH']"
    assert descriptors == "[0, 1, 2]"
    assert session == "True / 18"
    assert privileges == "['1']"
    assert ignored == f"[{int(signal.SIGPIPE)}, {int(signal.SIGXFSZ)}]"  # by this Python itself


async def test_standard_output_can_be_opened_by_name(kept: Kept) -> None:
    await kept.start("a", "sh", "-c", "echo one; echo two > /dev/stdout; echo three >> /dev/stderr; echo four")
    await kept.ended("a")
    assert kept.lines("a") == ["one", "two", "four"]
    assert kept.lines("a", "stderr") == ["three"]


async def test_nothing_of_a_container_is_left_after_its_main_process(kept: Kept) -> None:
    """Children that left the session are still the container's."""
    script = "(setsid sleep 61 & echo $!); sleep 62 & echo $!; exit 0"
    await kept.start("a", "sh", "-c", script)
    await kept.ended("a")
    left = [int(line) for line in kept.lines("a")]
    assert len(left) == 2
    assert not any(map(runs, left))


async def test_kill_reaches_all_processes(kept: Kept) -> None:
    await kept.start("a", "sh", "-c", "trap '' TERM; (setsid sleep 63 & echo $!); sleep 64")
    await eventually(lambda: kept.lines("a"))
    await kept.client.call("kill", {"id": "a"})
    await kept.ended("a")
    assert not runs(int(kept.lines("a")[0]))


async def test_orphans_are_reaped(kept: Kept) -> None:
    keeper = await kept.pid()
    await kept.start("a", "sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.0$i & echo $!); done; sleep 60")
    await eventually(lambda: len(kept.lines("a")) == 5)
    orphans = [int(line) for line in kept.lines("a")]
    await eventually(lambda: all(identity.stat(pid) is None for pid in orphans))
    assert runs(keeper)


async def test_changes_are_told_to_every_watcher(kept: Kept) -> None:
    seen: list[list[str]] = [[], []]

    async def watch(into: list[str]) -> None:
        async for event in kept.client.watch():
            into += ["all" if event is None else event["state"]]

    tasks = [asyncio.create_task(watch(into)) for into in seen]
    await eventually(lambda: all(into == ["all"] for into in seen))
    await kept.start("a", "true")
    await eventually(lambda: all(into[-1] == "exited" for into in seen))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_remove_is_refused_while_it_runs_and_harmless_afterwards(kept: Kept) -> None:
    await kept.start("a", "sleep", "60")
    with pytest.raises(KeeperRefused, match="has not exited"):
        await kept.client.call("remove", {"id": "a"})
    with pytest.raises(KeeperRefused, match="containers run"):
        await kept.client.call("stop")
    await kept.client.call("kill", {"id": "a"})
    await kept.ended("a")
    await kept.client.call("remove", {"id": "a"})
    await kept.client.call("remove", {"id": "a"})
    assert await kept.client.call("list") == []
    assert kept.log_path("a").exists()


async def test_only_its_owner_can_reach_it_and_there_is_one_per_directory(kept: Kept) -> None:
    pid = await kept.pid()
    await asyncio.gather(*(ensure_keeper(kept.data_dir) for _ in range(3)))
    assert await kept.pid() == pid
    directory = kept.data_dir / "keeper"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "keeper.sock").stat().st_mode) & 0o077 == 0
    assert os.getsid(pid) != os.getsid(0)


async def test_another_version_is_refused_in_words(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.pid()
    monkeypatch.setattr(frames, "VERSION", 99)
    other = KeeperClient(kept.data_dir)
    with pytest.raises(KeeperRefused, match="v 99: this keeper speaks version 1"):
        await other.call("hello")
    await other.close()
    monkeypatch.undo()


async def test_it_is_small(kept: Kept) -> None:
    await kept.start("a", "sleep", "60")
    assert resident_kibibytes(await kept.pid()) <= 12 * 1024


def resident_kibibytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0])


async def test_a_path_longer_than_a_sockets_address_works(tmp_path: Path) -> None:
    kept = Kept(tmp_path / ("d" * 120))
    kept.data_dir.mkdir()
    await kept.start("a", "true")
    await kept.ended("a")
    await kept.clear()


async def test_without_free_descriptors_it_says_so_and_goes_on_afterwards(kept: Kept) -> None:
    await kept.start("a", "sh", "-c", "while :; do echo tick; sleep 0.05; done")
    keeper = await kept.pid()
    limits = resource.prlimit(keeper, resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir(f"/proc/{keeper}/fd"))) + 1
    for spare in range(8):
        resource.prlimit(keeper, resource.RLIMIT_NOFILE, (used + spare, limits[1]))
        with pytest.raises(KeeperRefused, match="Too many open files"):
            await kept.start("b", "true")
    other = KeeperClient(kept.data_dir)
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, (used, limits[1]))
    refused = asyncio.create_task(other.call("hello"))
    written = len(kept.lines("a"))
    await eventually(lambda: len(kept.lines("a")) > written + 1)
    resource.prlimit(keeper, resource.RLIMIT_NOFILE, limits)
    assert (await refused)["pid"] == keeper
    await other.close()
    await kept.start("b", "true")
    await kept.ended("b")
    await kept.client.call("remove", {"id": "b"})
    await eventually(lambda: len(os.listdir(f"/proc/{keeper}/fd")) <= used)


async def test_a_log_that_cannot_be_written_holds_its_container_up_and_loses_nothing(kept: Kept) -> None:
    """As a full disk does: the container waits, and goes on when there is room again."""
    keeper = await kept.pid()
    limits = resource.prlimit(keeper, resource.RLIMIT_FSIZE)
    await kept.start("a", "sh", "-c", "seq 1 5; read line < /dev/null; sleep 0.3; seq 6 50000; exit 5")
    await eventually(lambda: len(kept.lines("a")) == 5)
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, (1000, limits[1]))
    await eventually(lambda: "File too large" in (kept.data_dir / "keeper/keeper.log").read_text())
    assert len(kept.lines("a")) < 50
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, limits)
    assert (await kept.ended("a"))["exit_code"] == 5
    assert kept.lines("a") == [str(number) for number in range(1, 50_001)]


async def test_no_line_of_a_chatty_container_is_lost(kept: Kept) -> None:
    await kept.start("a", "seq", "1", "200000")
    await kept.start("b", "sh", "-c", "seq 1 100000; seq 1 100000 >&2")
    for id in ("a", "b"):
        await kept.ended(id)
    assert kept.lines("a") == [str(number) for number in range(1, 200_001)]
    assert kept.lines("b") == kept.lines("b", "stderr") == [str(number) for number in range(1, 100_001)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_it_runs_as_the_user_that_was_asked_for(kept: Kept) -> None:
    await kept.start("a", "sh", "-c", "id -u; id -g; id -G; echo by name > /dev/stdout", uid=65534, gid=65533)
    await kept.ended("a")
    assert kept.lines("a") == ["65534", "65533", "65533", "by name"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root can become another user")
async def test_an_ordinary_user_cannot_become_another(kept: Kept) -> None:
    with pytest.raises(KeeperRefused, match="only root can become another user"):
        await kept.start("a", "true", uid=os.geteuid() + 1)


async def test_mounts_are_the_containers_own(kept: Kept) -> None:
    volume = kept.data_dir / "volume"
    volume.mkdir()
    (volume / "file").write_text("content\n")
    mounts = [
        {"source": str(volume), "target": "/headrace-test-mount/deep"},
        {"source": str(volume), "target": "/etc/headrace-test-mount", "read_only": True},
        {"source": str(volume / "file"), "target": "/etc/headrace-test-file"},
    ]
    script = (
        "cat /headrace-test-mount/deep/file /etc/headrace-test-mount/file /etc/headrace-test-file; uname -n >&2;"
        "echo new > /headrace-test-mount/deep/new; echo no > /etc/headrace-test-mount/no"
    )
    try:
        await kept.start("a", "sh", "-c", script, mounts=mounts)
    except KeeperRefused as refused:
        assert os.geteuid() != 0
        pytest.skip(f"unprivileged user namespaces are off: {refused}")
    await kept.ended("a")
    assert kept.lines("a") == ["content"] * 3
    errors = kept.lines("a", "stderr")
    assert errors[0] == os.uname().nodename
    assert "Read-only file system" in errors[1]
    assert (volume / "new").read_text() == "new\n"
    assert not (volume / "no").exists()
    assert not any(map(os.path.exists, [mount["target"] for mount in mounts]))
