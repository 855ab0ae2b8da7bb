"""Commands inside of containers on real Podman: those of exec probes."""

import asyncio
import signal

import pytest

from headrace.node.runtimes import podman_exec
from headrace.node.runtimes.podman import PodmanRuntime
from headrace.node.runtimes.protocol import RuntimeUnavailable
from tests.node.eventually import eventually
from tests.node.runtimes.test_podman import Home, home

__all__ = ["home"]
pytestmark = [pytest.mark.podman, pytest.mark.xdist_group("podman")]


async def test_a_probe_runs_inside(home: Home) -> None:
    await home.start("a", "sleep", "600")
    assert await home.runtime.execute("a", ["sh", "-c", "echo $container; ls /given; exit 4"], 1024, 60) == (
        4,
        "podman\r\nls: /given: No such file or directory\r\n",
    )
    assert await home.runtime.execute("a", ["sh", "-c", "yes | head -c 3000000"], 4, 60) == (0, "y\r\ny")
    code, _ = await home.runtime.execute("a", ["no-such-command"], 1024, 60)
    assert code != 0
    with pytest.raises(OSError, match="no such container"):
        await home.runtime.execute("never-was", ["true"], 1024, 60)


async def test_a_command_inside_that_is_given_up_ends_with_all_that_it_started(home: Home) -> None:
    await home.start("a", "sleep", "600")

    def there() -> list[str]:
        lines = home.service.podman("top", home.name("a"), "args").splitlines()
        return [line for line in lines if "98" in line]

    script = "sleep 987 & sleep 986 | cat; true"
    asked = asyncio.create_task(home.runtime.execute("a", ["sh", "-c", script], 1024, 60))
    await eventually(lambda: len(there()) == 3)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await eventually(lambda: not there())
    assert (await home.state("a")).state == "running"  # type: ignore[union-attr]
    assert await home.runtime.execute("a", ["echo", "well"], 1024, 60) == (0, "well\r\n")
    await eventually(lambda: not home.runtime._ending)


async def test_one_that_takes_longer_than_its_time_ends_and_a_podman_that_hangs_is_no_fault_of_the_container(
    home: Home,
) -> None:
    await home.start("a", "sleep", "600")
    with pytest.raises(TimeoutError):
        await home.runtime.execute("a", ["sleep", "984"], 1024, 1)
    await eventually(lambda: "984" not in home.service.podman("top", home.name("a"), "args"))
    process = home.service.process
    assert process is not None
    impatient = await PodmanRuntime.open(home.directory, home.service.socket, call_seconds=1)
    process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(RuntimeUnavailable, match="did not answer"):
            await impatient.execute("a", ["true"], 1024, 1)
    finally:
        process.send_signal(signal.SIGCONT)
    await impatient.close()


async def test_one_that_is_given_up_before_it_began_ends_too(home: Home) -> None:
    """Podman begins it all the same, when it gets to it."""
    state = await home.start("a", "sleep", "600")
    body = {"AttachStdout": True, "Cmd": ["sleep", "985"], "Tty": True}
    made = await home.podman.call("POST", f"/containers/{home.name('a')}/exec", body=body)
    path = f"/exec/{made['Id']}"
    directories = home.runtime._group(state).directories
    ending = asyncio.create_task(podman_exec.end(home.podman, path, directories))
    await home.podman.call("POST", f"{path}/start", body={"Detach": True, "Tty": True})
    await asyncio.wait_for(ending, 60)
    told = await home.podman.call("GET", f"{path}/json")
    assert told["Pid"], "it has begun"
    assert "985" not in home.service.podman("top", home.name("a"), "args")
