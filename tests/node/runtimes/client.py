"""An agent's life for the survival tests: start what shall run, look, resize, until somebody kills it.

`python -m tests.node.runtimes.client DATA_DIR COUNT MODE`; prints a line whenever all containers are running.
"""

import asyncio
import itertools
import sys
from pathlib import Path

from headrace.node.cgroups.hierarchy import Hierarchies
from headrace.node.runtimes.process import ProcessRuntime
from headrace.node.runtimes.protocol import ContainerSpec, Limits
from tests.node.runtimes.programs import COUNT


def spec(data_dir: Path, number: int) -> ContainerSpec:
    """The container ends with its number as exit code."""
    id = f"c{number}"
    return ContainerSpec(
        id,
        "uid",
        "default/pod",
        id,
        (*COUNT, str(number)),
        {},
        "/",
        str(data_dir / f"{id}.log"),
        Limits(1000, 64 << 20),
    )


async def main(data_dir: Path, count: int, mode: str) -> None:
    runtime = await ProcessRuntime.open(data_dir, Hierarchies({}) if mode == "approximate" else None)
    specs = [spec(data_dir, number) for number in range(count)]

    async def follow() -> None:
        async for _ in runtime.changes():
            await runtime.list()

    task = asyncio.create_task(follow())
    for round in itertools.count():
        await asyncio.gather(*(runtime.start(one) for one in specs))
        sys.stdout.write(f"{round}\n")
        sys.stdout.flush()
        for one in specs:
            await runtime.apply(one.id, Limits(1000 + round % 2 * 500, (64 + round % 7) << 20))
    await task


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
