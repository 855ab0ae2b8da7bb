"""`writing_controllers.py KUBECONFIG NAME`: controllers whose one job writes its name again and again while leading."""

import asyncio
import sys
from pathlib import Path

from headrace.api.kinds import CONFIG_MAP
from headrace.client.kubeconfig import load
from headrace.runtime.actions import Again, Patch
from headrace.runtime.leader import LeaseTimes
from headrace.serve.cluster import ControllersSettings, Term, run_controllers
from headrace.serve.logging import log_to

TIMES = LeaseTimes(lease=3.0, renew=2.0, retry=0.3)


class Writing:
    name = "writing"
    sources = ()

    def __init__(self, writer):
        self.writer, self.count = writer, 0

    async def observe(self, key):
        return key

    def plan(self, seen, now):
        self.count += 1
        fields = {"data": {"writer": self.writer, "count": str(self.count)}}
        return (Patch(CONFIG_MAP, "default", "written", fields, None), Again(0.005))

    def refused(self, key, seen, action, refusal, now):
        return ()


async def main(kubeconfig, name):
    def jobs(term: Term):
        term.manager.add(Writing(name), workers=1).queue.add("tick")
        return ()

    settings = ControllersSettings(load(Path(kubeconfig)), times=TIMES)
    await run_controllers(settings, log_to(), lambda port: print("ready", port, flush=True), jobs)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
