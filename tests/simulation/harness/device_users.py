"""What people do to devices: slices that are written anew, claims that several Pods share, Pods that ask for one."""

from collections.abc import Mapping
from random import Random

from headrace.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from headrace.api.objects import Fields, Object
from headrace.store.protocol import AlreadyExists, Store
from headrace.store.rows import Key

GPU, TEMPLATE = "gpu.example.com", "one-gpu"
DEVICES = ("gpu-0", "gpu-1")
SHARED = 3
ONE_GPU = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU}}]}}


def _slice(node: str, generation: int, devices: tuple[str, ...]) -> Object:
    return {
        "driver": GPU,
        "nodeName": node,
        "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": name} for name in devices],
    }


async def found(store: Store, nodes: tuple[str, ...], namespaces: tuple[str, ...]) -> None:
    """The class, a template in each namespace, and a slice of each node."""
    made = [(DEVICE_CLASS, {"metadata": {"name": GPU}, "spec": {}}, "")]
    made += [
        (RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": TEMPLATE}, "spec": {"spec": ONE_GPU}}, each)
        for each in namespaces
    ]
    made += [(RESOURCE_SLICE, {"metadata": {"name": f"{n}-gpus"}, "spec": _slice(n, 1, DEVICES)}, "") for n in nodes]
    for kind, obj, namespace in made:
        try:
            await store.create(kind, obj, namespace)
        except AlreadyExists:
            continue


class DeviceUsers:
    def __init__(self, store: Store, last: Mapping[Key, Object], random: Random, nodes: tuple[str, ...]) -> None:
        self._store, self._last, self._random, self._nodes = store, last, random, nodes
        self._generation, self._number = 1, 0

    def _shared(self, namespace: str) -> list[str]:
        keys = (key for key in self._last if key.resource == RESOURCE_CLAIM.resource and key.namespace == namespace)
        return sorted(key.name for key in keys if key.name.startswith("shared"))

    def claim_of_new_pod(self, namespace: str) -> Fields | None:
        """An entry of spec.resourceClaims, for some."""
        if self._random.random() > 0.3:
            return None
        shared = self._shared(namespace)
        if shared and self._random.random() < 0.5:
            return {"name": "gpu", "resourceClaimName": self._random.choice(shared)}
        return {"name": "gpu", "resourceClaimTemplateName": TEMPLATE}

    async def create_claim(self) -> None:
        if len(self._shared("default")) < SHARED:
            self._number += 1
            claim = {"metadata": {"name": f"shared-{self._number}"}, "spec": ONE_GPU}
            await self._store.create(RESOURCE_CLAIM, claim, "default")

    async def delete_claim(self) -> None:
        if shared := self._shared("default"):
            await self._store.delete(RESOURCE_CLAIM, self._random.choice(shared), "default")

    async def change_slice(self) -> None:
        """A newer generation of the pool, with a device gone or back."""
        self._generation += 1
        node = self._random.choice(self._nodes)
        devices = self._random.choice((DEVICES, DEVICES, DEVICES[:1], DEVICES[1:]))
        fields = {"spec": _slice(node, self._generation, devices)}
        await self._store.patch(RESOURCE_SLICE, f"{node}-gpus", fields=fields)
