"""What people do to it: they create, resize, delete, label, taint, and own things, at random and all at once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random

from headrace.api.kinds import (
    CAPACITY_RESERVATION,
    CONFIG_MAP,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_SCALING_ACTION,
    Kind,
)
from headrace.api.objects import Object, name_of, uid_of, version_of
from headrace.api.times import to_time
from headrace.store.protocol import Deletion, Propagation, Store, StoreError
from headrace.store.rows import Key
from tests.simulation.harness.device_users import DeviceUsers
from tests.simulation.harness.metering import annotations
from tests.simulation.harness.policy_users import COLORS, PolicyUsers

NAMESPACES = ("default", "team")
PODS = 14
PROPAGATIONS: tuple[Propagation, ...] = ("Background", "Foreground", "Orphan")
MOST_TAINTS = 3


class Users:
    """One after the other they act on the store; `near` is the store without faults, `last` what is in it.

    `tainted`: by node, the keys of their taints that were acknowledged. Nobody else may remove them.
    """

    def __init__(
        self,
        store: Store,
        near: Callable[[], Store],
        last: Mapping[Key, Object],
        random: Random,
        nodes: tuple[str, ...],
        note: Callable[[str], None],
        wall: Callable[[], float],
        with_policies: bool,
    ) -> None:
        self.tainted: dict[str, set[str]] = {name: set() for name in nodes}
        self._store, self._near, self._last, self._random, self._nodes = store, near, last, random, nodes
        self._note, self._wall = note, wall
        self._devices = DeviceUsers(store, last, random, nodes)
        self._policies = PolicyUsers(store, last, random)
        self._with_policies = with_policies
        self._number = 0

    async def run(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(self._random.expovariate(0.6))
            action = self._chosen()
            try:
                await action()
            except StoreError as error:
                self._note(f"users: {action.__name__}: {type(error).__name__} {error}")

    def _chosen(self) -> Callable[[], Awaitable[None]]:
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (30, self.create_pod),
            (40, self.resize),
            (14, self.scale),
            (14, self.delete_pod),
            (3, self.reserve),
            (3, self.give_up_reservation),
            (6, self.label),
            (4, self._devices.create_claim),
            (3, self._devices.delete_claim),
            (5, self._devices.change_slice),
            (2, self.taint),
            (4, self.create_owned),
            (4, self.delete_owner),
            (2, self.create_namespace),
            (1, self.delete_namespace),
        ]
        if self._with_policies:
            actions += [
                (4, self._policies.create_policy),
                (2, self._policies.change_mode),
                (1, self._policies.delete_policy),
            ]
        weights = [weight for weight, _ in actions]
        return self._random.choices([action for _, action in actions], weights)[0]

    def _resources(self) -> Object:
        cpu = self._random.choice((100, 250, 500, 1000, 1500, 3000, 9000))
        memory = self._random.choice((32, 64, 256, 512, 1024, 3072))
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        return {"requests": requests, "limits": dict(requests)}

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}-{self._number}"

    def _all(self, kind: Kind) -> list[Object]:
        """Without asking the store: that people see what is old is no fault, and to decode it all is dear."""
        keys = sorted(key for key in self._last if key.resource == kind.resource)
        return [self._last[key] for key in keys]

    def _pods(self) -> list[Object]:
        return self._all(POD)

    async def create_pod(self) -> None:
        namespace = self._random.choice(NAMESPACES)
        if len(self._pods()) >= PODS:
            return
        name = self._name("pod")
        containers = [
            {
                "name": f"c{number}",
                "image": "app",
                "command": ["serve"],
                "resources": {
                    each: {**amounts, "cpu": min(amounts["cpu"], "1500m", key=len)}
                    for each, amounts in self._resources().items()
                },
            }
            for number in range(self._random.choice((1, 1, 1, 2)))
        ]
        spec: Object = {
            "containers": containers,
            "restartPolicy": self._random.choice(("Always", "Always", "OnFailure", "Never")),
            "terminationGracePeriodSeconds": self._random.choice((0, 1, 5, 30)),
        }
        if entry := self._devices.claim_of_new_pod(namespace):
            spec["resourceClaims"] = [entry]
            containers[0]["resources"]["claims"] = [{"name": entry["name"]}]
        elif self._random.random() < 0.15:
            spec["nodeName"] = self._random.choice(self._nodes)
        labels = {"headrace.dev/managed": "true"} if self._random.random() < 0.7 else {}
        labels["color"] = self._random.choice(COLORS)
        meta = {"name": name, "labels": labels, "annotations": annotations(namespace, name)}
        await self._store.create(POD, {"metadata": meta, "spec": spec}, namespace)
        self._note(f"users: created Pod {namespace}/{name}")

    async def resize(self) -> None:
        pods = [pod for pod in self._pods() if (pod.get("spec") or {}).get("nodeName")]
        if not pods:
            return
        pod = self._random.choice(pods)
        container = self._random.choice(pod["spec"]["containers"])
        wanted = self._resources()
        fields = {"spec": {"containers": [{"name": container["name"], "resources": wanted}]}}
        await self._store.patch(
            POD, name_of(pod), pod["metadata"]["namespace"], fields=fields, subresource="resize", strategic=True
        )
        self._note(f"users: resize {name_of(pod)} {container['name']} to {wanted['limits']}")

    async def scale(self) -> None:
        """The same by a ResourceScalingAction, which is judged, followed, tried again and told."""
        pods = [pod for pod in self._pods() if (pod.get("spec") or {}).get("nodeName")]
        if not pods:
            return
        pod = self._random.choice(pods)
        container = self._random.choice(pod["spec"]["containers"])
        limits = self._resources()["limits"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
        spec = {
            "workload": f"{name_of(pod)}/{container['name']}",
            "current": container["resources"]["limits"],
            "target": {name: limits[name] for name in limits if self._random.random() < 0.8} or limits,
            "onInsufficient": self._random.choice(("Reject", "Reject", "Defer", "Clamp")),
            "priority": self._random.choice((0, 0, 10)),
            "retry": {"count": self._random.choice((0, 3)), "seconds": 5},
        }
        action = {"metadata": {"name": self._name("action"), "ownerReferences": [owner]}, "spec": spec}
        await self._store.create(RESOURCE_SCALING_ACTION, action, pod["metadata"]["namespace"])
        self._note(f"users: scale {spec['workload']} to {spec['target']}")

    async def reserve(self) -> None:
        amounts = {"cpu": f"{self._random.choice((250, 1000, 2000))}m", "memory": "256Mi"}
        spec = {"node": self._random.choice(self._nodes), "resources": amounts}
        if self._random.random() < 0.6:
            spec["expirationTime"] = to_time(self._wall() + self._random.choice((5, 30, 120)))
        reservation = {"metadata": {"name": self._name("reservation")}, "spec": spec}
        await self._store.create(CAPACITY_RESERVATION, reservation, "default")
        self._note(f"users: reserve {amounts} on {spec['node']}")

    async def give_up_reservation(self) -> None:
        found = self._all(CAPACITY_RESERVATION)
        if found:
            await self._store.delete(CAPACITY_RESERVATION, name_of(self._random.choice(found)), "default")

    async def delete_pod(self) -> None:
        pods = self._pods()
        if not pods:
            return
        pod = self._random.choice(pods)
        grace = self._random.choice((None, None, None, 1, 0))
        await self._store.delete(POD, name_of(pod), pod["metadata"]["namespace"], Deletion(grace_seconds=grace))
        self._note(f"users: delete {name_of(pod)} grace {grace}")

    async def label(self) -> None:
        pods = self._pods()
        if not pods:
            return
        pod = self._random.choice(pods)
        labels = {"metadata": {"labels": {"color": self._random.choice(COLORS)}}}
        await self._store.patch(POD, name_of(pod), pod["metadata"]["namespace"], fields=labels)

    async def taint(self) -> None:
        await self._taint(self._random.choice(self._nodes))

    async def _taint(self, name: str) -> None:
        """Taints are one list for all who write them: nobody may lose another's."""
        node = await self._near().get(NODE, name)
        taints = list((node.get("spec") or {}).get("taints") or ())
        if len(self.tainted[name]) < MOST_TAINTS:
            key = self._name("maintenance")
            taints.append({"key": key, "effect": "PreferNoSchedule"})
            keys = self.tainted[name] | {key}
        else:
            key = self._random.choice(sorted(self.tainted[name]))
            taints = [each for each in taints if each["key"] != key]
            keys = self.tainted[name] - {key}
        await self._near().patch(NODE, name, fields={"spec": {"taints": taints}}, version=version_of(node))
        self.tainted[name] = keys

    async def interfere(self, kind: Kind, name: str, namespace: str) -> None:
        """Write this object just before somebody else does."""
        touch = {"metadata": {"annotations": {"touched": str(self._random.randrange(10**6))}}}
        with suppress(StoreError):
            if kind == NODE and name in self.tainted:
                await self._taint(name)
            else:
                await self._near().patch(kind, name, namespace, fields=touch)

    async def create_owned(self) -> None:
        owner = await self._store.create(CONFIG_MAP, {"metadata": {"name": self._name("owner")}}, "default")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name_of(owner), "uid": uid_of(owner)}
        for _ in range(self._random.choice((1, 2))):
            references = [{**reference, "blockOwnerDeletion": self._random.random() < 0.5}]
            meta = {"name": self._name("owned"), "ownerReferences": references}
            await self._store.create(CONFIG_MAP, {"metadata": meta}, "default")

    async def delete_owner(self) -> None:
        maps = [each for each in self._all(CONFIG_MAP) if each["metadata"]["namespace"] == "default"]
        owners = [each for each in maps if name_of(each).startswith("owner")]
        if not owners:
            return
        owner, propagation = self._random.choice(owners), self._random.choice(PROPAGATIONS)
        await self._store.delete(CONFIG_MAP, name_of(owner), "default", Deletion(propagation=propagation))
        self._note(f"users: delete {name_of(owner)} {propagation}")

    async def create_namespace(self) -> None:
        name = self._name("space")
        await self._store.create(NAMESPACE, {"metadata": {"name": name}})
        await self._store.create(CONFIG_MAP, {"metadata": {"name": "content"}}, name)

    async def delete_namespace(self) -> None:
        names = [name_of(each) for each in self._all(NAMESPACE)]
        spaces = [name for name in names if name.startswith("space")]
        if spaces:
            await self._store.delete(NAMESPACE, self._random.choice(spaces))
