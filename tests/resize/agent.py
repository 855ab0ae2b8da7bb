"""A node's agent that obeys, or is told to fail in a certain way: for sequences that real kernels rarely show."""

import asyncio

from headrace.api.amounts import read
from headrace.api.kinds import POD
from headrace.ledger.pods import LISTS
from headrace.resize.plan import admitted
from headrace.store.protocol import NotFound


class Agent:
    """Plays the node's agent: applies what is admitted after a moment, unless it is told to be `broken` or `away`.

    `broken` is the message of its failure. `gives` replaces what it reads back.
    """

    def __init__(self, store, node="node-a"):
        """`store` is a node's door. `gives_cpu`: the limit that it sets whenever another one is to be set."""
        self._store, self._selected = store, f"spec.nodeName={node}"
        self.broken, self.away, self.gives, self.gives_cpu = "", False, None, ""

    async def run(self):
        found = await self._store.list(POD, fields=self._selected)
        for each in found.items:
            await self.obey(each)
        async for event in self._store.watch(POD, since=found.revision, fields=self._selected):
            if event.type in ("ADDED", "MODIFIED"):
                await asyncio.sleep(0.01)
                await self.obey(event.object)

    async def look_again(self, name):
        await self.obey(await self._store.get(POD, name, "default"))

    async def obey(self, pod):
        if self.away:
            return
        lists, conditions, same = {}, [], True
        for field, name in LISTS:
            told = {each["name"]: each for each in pod.get("status", {}).get(name) or ()}
            containers = pod["spec"].get(field) or ()
            statuses = [self.obeyed(pod, field, each, told.get(each["name"], {}), conditions) for each in containers]
            same &= all(each.items() <= told.get(each["name"], {}).items() for each in statuses)
            if statuses:
                lists[name] = statuses
        known = [each for each in pod["status"].get("conditions") or () if each["type"] == "PodResizeInProgress"]
        if known and not conditions:
            conditions.append({"type": "PodResizeInProgress", "$patch": "delete"})
        if same and [each.get("message") for each in known] == [each.get("message") for each in conditions]:
            return
        fields = {"status": {"phase": "Running", **lists, "conditions": conditions}}
        try:
            await self._store.patch(
                POD, pod["metadata"]["name"], "default", fields=fields, subresource="status", strategic=True
            )
        except NotFound:
            return

    def obeyed(self, pod, field, container, before, conditions):
        """What it tells of one container. An initial one that does not stay has ended."""
        name = container["name"]
        status = {"name": name, "image": "app", "imageID": "", "ready": True, "restartCount": 0}
        if field == "initContainers" and container.get("restartPolicy") != "Always":
            return status | {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
        record = admitted(pod)[field][name]
        has = before.get("resources")
        wanted = {
            "requests": {"cpu": f"{record['cpu']}m", "memory": str(record["memory"])},
            "limits": {"cpu": f"{record['limits.cpu']}m", "memory": str(record["limits.memory"])},
        }
        given = has if self.broken and has else (self.gives or wanted)
        if self.gives_cpu and has and read(has["limits"]) != read(wanted["limits"]):
            given = {part: {**wanted[part], "cpu": self.gives_cpu} for part in wanted}
        if has and read(given["limits"]) == read(has["limits"]):
            given = has
        if read(given["limits"]) != read(wanted["limits"]):
            message = self.broken or f"asked for {wanted['limits']}, but {given['limits']} was read back"
            conditions.append({"type": "PodResizeInProgress", "status": "True", "reason": "Error", "message": message})
        state = {"running": {"startedAt": "2027-01-15T08:00:00Z"}}
        return status | {"resources": given, "state": before.get("state") or state}
