"""Readers that do not read: what they leave behind when they are gone is nothing."""

import asyncio

from headrace.api.kinds import CONFIG_MAP
from tests.apiserver.serving import Serving, serving
from tests.node.eventually import eventually

PATH = "/api/v1/namespaces/default/configmaps?watch=true"


def watchers(server: Serving) -> int:
    return len(server.store.rows._watchers._by_resource["configmaps"])


def waiting(server: Serving) -> int:
    """Events that wait for the slowest reader."""
    return max(len(each._waiting) for each in server.store.rows._watchers._by_resource["configmaps"])


async def test_a_watcher_that_hangs_up_while_it_does_not_keep_up_is_forgotten(tmp_path):
    """Each such watcher stayed for ever, with all that was written since, until its user had no watch left."""
    async with serving(tmp_path) as server:
        await server.store.create(CONFIG_MAP, {"metadata": {"name": "big"}}, "default")
        already = watchers(server)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.running.port, ssl=server.cluster().tls())
        writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await reader.readuntil(b"ADDED")
        await eventually(lambda: watchers(server) == already + 1)
        writer.transport.pause_reading()
        number = 0
        while waiting(server) < 3:
            number += 1
            await server.store.patch(CONFIG_MAP, "big", "default", fields={"data": {"text": f"{number}" * 200_000}})
            await asyncio.sleep(0)
        writer.transport.abort()
        await eventually(lambda: watchers(server) == already)
