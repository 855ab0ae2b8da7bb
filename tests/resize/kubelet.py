"""A node's kubelet on our own store, in virtual time: it admits by requests and tells what KEP-1287 has it tell."""

import asyncio

from headrace.api.amounts import read
from headrace.api.kinds import NODE, POD
from headrace.store.protocol import NotFound

NO_ROOM = "Node didn't have enough resource: cpu, requested: {}, used: {}, capacity: {}"


class Kubelet:
    """Of node-a; `store` must be a door that may write all of a status. Sees a change after a moment."""

    def __init__(self, store):
        self._store, self._allocated = store, {}

    async def run(self):
        async for event in self._store.watch(POD, fields="spec.nodeName=node-a"):
            await asyncio.sleep(0.01)
            if event.type == "BOOKMARK":
                continue
            if event.type == "DELETED" or event.object["status"].get("phase") == "Succeeded":
                self._allocated.pop(event.object["metadata"]["name"], None)
                for pod in (await self._store.list(POD, fields="spec.nodeName=node-a")).items:
                    if pod["status"].get("phase") != "Succeeded":
                        await self._look(pod)  # what waits is tried again
            else:
                await self._look(event.object)

    async def _look(self, pod):
        name, spec = pod["metadata"]["name"], {each["name"]: each["resources"] for each in pod["spec"]["containers"]}
        node = await self._store.get(NODE, "node-a")
        total = read(node["status"]["allocatable"])["cpu"]
        used = sum(_cpu(resources) for other, resources in self._allocated.items() if other != name)
        wanted = _cpu(spec)
        conditions = []
        if name not in self._allocated or used + wanted <= total:
            self._allocated[name] = spec
        elif self._allocated[name] != spec:
            conditions = [
                {
                    "type": "PodResizePending",
                    "status": "True",
                    "reason": "Deferred",
                    "message": NO_ROOM.format(wanted, used, total),
                    "observedGeneration": pod["metadata"]["generation"],
                }
            ]
        await self._tell(pod, conditions)

    async def _tell(self, pod, conditions):
        statuses = [
            {
                "name": name,
                "image": "app",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}},
                "allocatedResources": resources["requests"] | {"limits.cpu": None, "limits.memory": None},
                "resources": resources,
            }
            for name, resources in self._allocated[pod["metadata"]["name"]].items()
        ]
        known = [each for each in pod["status"].get("conditions") or () if each["type"] == "PodResizePending"]
        if known and not conditions:
            conditions = [{"type": "PodResizePending", "$patch": "delete"}]
        status = {"phase": "Running", "containerStatuses": statuses, "conditions": conditions}
        status["observedGeneration"] = pod["metadata"]["generation"]
        before = {each["name"]: each.get("resources") for each in pod["status"].get("containerStatuses") or ()}
        same = before == {each["name"]: each["resources"] for each in statuses}
        seen = pod["status"].get("observedGeneration") == status["observedGeneration"]
        if same and seen and [each.get("message") for each in known] == [each.get("message") for each in conditions]:
            return
        try:
            await self._store.patch(
                POD, pod["metadata"]["name"], "default", fields={"status": status}, subresource="status", strategic=True
            )
        except NotFound:
            return


def _cpu(resources):
    return sum(read(each["requests"])["cpu"] for each in resources.values())
