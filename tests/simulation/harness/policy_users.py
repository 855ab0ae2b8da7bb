"""What people do with ResizePolicies: they make them, change their mode, and take them away. Bounds never change."""

from collections.abc import Mapping
from random import Random

from headrace.api.kinds import RESIZE_POLICY
from headrace.api.objects import Object, name_of
from headrace.store.protocol import Store
from headrace.store.rows import Key

COLORS = ("red", "blue")
MODES = ("Auto", "Auto", "Auto", "Auto", "DryRun", "Off")
POLICIES = 2


class PolicyUsers:
    def __init__(self, store: Store, last: Mapping[Key, Object], random: Random) -> None:
        self._store, self._last, self._random = store, last, random
        self._number = 0

    def _names(self) -> list[str]:
        return sorted(key.name for key in self._last if key.resource == RESIZE_POLICY.resource)

    async def create_policy(self) -> None:
        if len(self._names()) >= POLICIES:
            return
        self._number += 1
        policy = {"metadata": {"name": f"policy-{self._number}"}, "spec": self._spec()}
        await self._store.create(RESIZE_POLICY, policy, "default")

    def _spec(self) -> Object:
        matching = self._random.choice((1, 2))
        triggers: list[Object] = [
            {
                "metric": each,
                "up": {"above": "80%"},
                "down": {"below": "30%"},
                "samples": {"matching": matching, "of": 2},
            }
            for each in ("cpu", "memory")
        ]
        if self._random.random() < 0.3:
            trigger = {"metric": "latency", "resources": ["cpu"], "up": {"above": "300"}}
            triggers.append({**trigger, "samples": {"matching": 1, "of": 2}})
        spec: Object = {
            "selector": {"matchLabels": {"color": self._random.choice(COLORS)}},
            "mode": self._random.choice(MODES),
            "triggers": triggers,
            "min": {"cpu": "50m", "memory": "16Mi"},
            "max": {"cpu": self._random.choice(("1", "2500m")), "memory": "1Gi"},
            "cooldownSeconds": {"up": self._random.choice((5, 60)), "down": 30},
            "stabilizationSeconds": 30,
            "onInsufficient": self._random.choice(("Reject", "Defer", "Clamp")),
        }
        if self._random.random() < 0.4:
            spec["quota"] = {"cpu": "2"}
        return spec

    async def change_mode(self) -> None:
        if names := self._names():
            fields = {"spec": {"mode": self._random.choice(MODES)}}
            await self._store.patch(RESIZE_POLICY, self._random.choice(names), "default", fields=fields)

    async def delete_policy(self) -> None:
        policies = [obj for key, obj in sorted(self._last.items()) if key.resource == RESIZE_POLICY.resource]
        if policies:
            await self._store.delete(RESIZE_POLICY, name_of(self._random.choice(policies)), "default")
