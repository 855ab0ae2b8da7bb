"""A store in which controllers see one Pod with a quantity that cannot be read, which no server would take in."""

import copy
import dataclasses

from headrace.api.objects import name_of


class Damaging:
    """Lists and watches show the Pod `name` as `damage` leaves it; everything else is the store's."""

    def __init__(self, store, name, damage):
        self._store, self._name, self._damage = store, name, damage

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def list(self, *arguments, **options):
        page = await self._store.list(*arguments, **options)
        return dataclasses.replace(page, items=[self._seen(each) for each in page.items])

    async def watch(self, *arguments, **options):
        async for event in self._store.watch(*arguments, **options):
            yield dataclasses.replace(event, object=self._seen(event.object))

    def _seen(self, obj):
        if obj["kind"] != "Pod" or name_of(obj) != self._name:
            return obj
        obj = copy.deepcopy(obj)
        self._damage(obj)
        return obj


def in_spec(pod):
    for container in pod["spec"]["containers"]:
        container["resources"]["limits"]["cpu"] = "a lot"


def in_record(pod):
    for told in pod.get("status", {}).get("containerStatuses") or ():
        told["allocatedResources"] = {"cpu": "a lot", "memory": "1Gi", "limits.cpu": "1", "limits.memory": "1Gi"}


def in_what_is_so(pod):
    for told in pod.get("status", {}).get("containerStatuses") or ():
        told["resources"] = {"requests": {"cpu": "a lot"}, "limits": {"cpu": "1", "memory": "1Gi"}}
