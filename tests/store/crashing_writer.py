"""A process that writes under load until it is killed, and tells each acknowledged write on its standard output.

Usage: crashing_writer.py FILE SEED [NTH_SYNC]. A line: resource, name, revision, and `put` or `remove`. With NTH_SYNC
the disk kills the process just before that sync.
"""

import asyncio
import contextlib
import random
import sys

from headrace.store.history import Retention
from headrace.store.protocol import Conflict, Refused
from headrace.store.rows import Key
from headrace.store.sqlite import open_rows
from tests.ledger.builders import container, node, pod
from tests.store import faulty_vfs
from tests.store.builders import write

WRITERS = 8
NODE = Key("nodes", "", "node-a")


def tell(key: Key, revision: int, what: str) -> None:
    sys.stdout.write(f"{key.resource} {key.name} {revision} {what}\n")
    sys.stdout.flush()


async def put(rows, key: Key, obj: dict, confirmed: bool = True) -> None:
    row = rows.get(key)
    with contextlib.suppress(Conflict, Refused):
        tell(key, await rows.commit(write(key, row.revision if row else 0, obj, confirmed)), "put")


async def remove(rows, key: Key, confirmed: bool) -> None:
    row = rows.get(key)
    if row is not None:
        tell(key, await rows.commit(write(key, row.revision, None, confirmed)), "remove")


async def writer(rows, number: int, chance: random.Random) -> None:
    """Each has names of its own, so no write of one is undone by another's."""
    while True:
        name = f"{number}-{chance.randrange(4)}"
        if chance.random() < 0.5:
            await put(rows, Key("configmaps", "default", name), {"data": {"text": "x" * chance.randrange(4000)}})
        elif chance.random() < 0.6:
            found = pod(name, container(cpu=f"{chance.randrange(1, 9)}00m"))
            await put(rows, Key("pods", "default", name), found)
        else:
            await remove(rows, Key("pods", "default", name), confirmed=chance.random() < 0.5)
        if number == 0 and chance.random() < 0.05:
            confirmed = {"confirmed-revision": rows.revision - chance.randrange(40)}
            await put(rows, NODE, node(cpu="16", annotations=confirmed))


async def main() -> None:
    file, seed, *nth = sys.argv[1:]
    vfs = None
    if nth:
        disk = faulty_vfs.FaultyDisk()
        disk.plan["sync", int(nth[0])] = faulty_vfs.kill
        vfs = faulty_vfs.NAME
    rows = await open_rows(file, retention=Retention(revisions=50, seconds=0, most=50), vfs=vfs)
    await put(rows, NODE, node(cpu="16"))
    chance = random.Random(seed)
    await asyncio.gather(*(writer(rows, number, chance) for number in range(WRITERS)))


asyncio.run(main())
