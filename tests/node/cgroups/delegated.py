"""An agent's runtime in a cgroup and as a user of the test's choice: `python -m … CGROUP UID DATA_DIR`; prints JSON.

It joins the cgroup, becomes the user, starts a container with limits, resizes it, and tells what was so.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from headrace.node.cgroups import hierarchy
from headrace.node.cgroups.hierarchy import UNIFIED
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import ContainerSpec, Limits, MemoryInUse
from tests.node.eventually import eventually
from tests.node.runtimes.programs import HOLD

MEBIBYTE = 1 << 20


async def life(data_dir: Path) -> dict[str, Any]:
    runtime = await ProcessRuntime.open(data_dir)
    told = runtime.capabilities()
    log = data_dir / "a.log"
    spec = ContainerSpec("a", "uid", "default/pod", "a", (*HOLD, "40"), {}, "/", str(log), Limits(500, 128 * MEBIBYTE))
    state = await runtime.start(spec)
    await eventually(lambda: log.exists() and "held" in log.read_text(), 60)
    seen = {"cpu": told.cpu, "detail": told.detail, "agent": _place("self"), "container": _place(state.pid)}
    if told.cpu == "enforced":
        grown = await runtime.apply("a", Limits(700, 200 * MEBIBYTE))
        try:
            await runtime.apply("a", Limits(700, 16 * MEBIBYTE))
        except MemoryInUse as refused:
            seen |= {"refused": str(refused), "restored": refused.restored}
        seen |= {"grown": [grown.cpu_milli, grown.memory_bytes]}
    await runtime.kill("a")

    async def exited() -> bool:
        return (await runtime.list())[0].state == "exited"

    await eventually(exited, 30)
    await runtime.remove("a")
    await runtime.stop_keeper()
    return seen


def _place(pid: int | str) -> str:
    return str(hierarchy.find().places(pid)[UNIFIED])


if __name__ == "__main__":
    cgroup, user, directory = sys.argv[1:]
    Path(cgroup, "cgroup.procs").write_text(str(os.getpid()))
    os.setgid(int(user))
    os.setuid(int(user))
    print(json.dumps(asyncio.run(life(Path(directory)))))
