"""An agent with 500 containers, each sampled once a second and sent to the control plane: its CPU and its memory.

The containers are sleeping processes of one node. What is measured is the agent's own process after all of them run;
the keeper, which holds the processes, is told beside it.
"""

import contextlib
import json
import tempfile
import time
from pathlib import Path

from bench.resize.machine import agent, cpu_milliseconds, load_now, resident_mebibytes, server
from tests.e2e.processes import wait_for

CONTAINERS, PER_POD = 500, 50
STARTED_SECONDS = 300.0
NODE = "many"


def pods() -> str:
    """Ten Pods of fifty containers: the sampler sees containers, and fewer Pods start sooner."""
    amounts = {"cpu": "1m", "memory": "1Mi"}
    found = []
    for number in range(CONTAINERS // PER_POD):
        containers = [
            {
                "name": f"c{each}",
                "image": "none",
                "command": ["sleep", "100000"],
                "resources": {"requests": amounts, "limits": {"cpu": "100m", "memory": "8Mi"}},
            }
            for each in range(PER_POD)
        ]
        spec = {"nodeName": NODE, "terminationGracePeriodSeconds": 0, "containers": containers}
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": found})


def keeper_of(directory: Path) -> int:
    """The keeper of this agent, by its command line."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes()
            if b"headrace.node.keeper" in words and str(directory).encode() in words:
                return int(place.name)
    raise LookupError("the keeper")


def run(rounds: int) -> None:
    """`rounds`: seconds."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp")))
        running, client = stack.enter_context(server(directory))
        pid = stack.enter_context(agent(running, client, directory, NODE, "--runtime", "process"))
        idle = resident_mebibytes(pid)
        running.run("apply", "-f", "-", text=pods())

        def started() -> bool:
            found = json.loads(running.run("get", "pods", "-o", "json"))["items"]
            return all((each.get("status") or {}).get("phase") == "Running" for each in found)

        wait_for("all run", started, STARTED_SECONDS)
        wait_for("all are measured", lambda: len(running.run("top", "--once").splitlines()) > CONTAINERS, 60)
        time.sleep(5)  # what starting them left to do
        keeper, before = keeper_of(directory), load_now()
        began, used = time.monotonic(), (cpu_milliseconds(pid), cpu_milliseconds(keeper))
        time.sleep(rounds)
        seconds = time.monotonic() - began
        agents, keepers = (
            (cpu_milliseconds(each) - was) / seconds / 10 for each, was in zip((pid, keeper), used, strict=True)
        )
        print(f"before: {before}; after: {load_now()}\n\n| | % of a core | RSS MB |\n|---|---|---|")
        print(f"| agent, {CONTAINERS} containers at 1 Hz | {agents:.2f} | {resident_mebibytes(pid):.0f} |")
        print(f"| the same agent before | | {idle:.0f} |")
        print(f"| its keeper | {keepers:.2f} | {resident_mebibytes(keeper):.0f} |")
