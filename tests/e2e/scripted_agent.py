"""`python -m tests.e2e.scripted_agent URL AGENTS NODE DIRECTORY [--gives CPU | --broken WORDS]`: an agent as a process.

It joins with HEADRACE_JOIN_TOKEN, registers a node of the design's example (8 CPUs, one reserved) and plays its part.
"""

import argparse
import asyncio
import contextlib
import os
from pathlib import Path

from headrace.api.kinds import NODE
from headrace.client.http import Client
from headrace.node.certificate import Credentials
from headrace.node.connected import Server, ensure_joined
from headrace.node.joining import cluster
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import AlreadyExists
from tests.resize.agent import Agent


async def main(arguments):
    credentials = Credentials(Path(arguments.directory) / "pki")
    server = Server(arguments.url, arguments.agents)
    await ensure_joined(server, arguments.node, credentials, os.environ["HEADRACE_JOIN_TOKEN"])
    async with Client(cluster(arguments.url, credentials)) as client:
        store = KubernetesStore(client)
        with contextlib.suppress(AlreadyExists):
            labels = {"kubernetes.io/hostname": arguments.node}
            await store.create(NODE, {"metadata": {"name": arguments.node, "labels": labels}})
        capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "scripted"}
        status = {"capacity": capacity, "allocatable": {**capacity, "cpu": "7"}, "conditions": [ready]}
        await store.patch(NODE, arguments.node, fields={"status": status}, subresource="status")
        agent = Agent(store, arguments.node)
        agent.broken = arguments.broken
        if arguments.gives:
            agent.gives_cpu = arguments.gives
        print("ready", flush=True)
        await agent.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("url", "agents", "node", "directory"):
        parser.add_argument(name)
    parser.add_argument("--gives", default="")
    parser.add_argument("--broken", default="")
    asyncio.run(main(parser.parse_args()))
