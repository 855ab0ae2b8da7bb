"""Random objects of four kinds and random patches of three types for them, from a seed."""

import copy
import random
from pathlib import Path
from typing import Any

import yaml

SAMPLES = Path(__file__).parents[1] / "objects" / "referee" / "samples.yaml"
KINDS = ("Deployment", "HorizontalPodAutoscaler", "Pod", "ResourceClaim")
SCALARS = ("x", "", "http", "1Gi", 0, 7, -1, 80, True, False, 1.5)
MERGE_KEYS = ("name", "key", "containerPort", "mountPath", "devicePath", "ip", "topologyKey", "type", "uid", "port")
OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")


def samples() -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(SAMPLES.read_text()) if each["kind"] in KINDS]


class Generator:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.samples = samples()

    def case(self) -> dict[str, Any]:
        """`type`, `kind`, `object` and `patch`."""
        sample = self.chance.choice(self.samples)
        obj = self._part_of(copy.deepcopy(sample))
        kind = self.chance.choices(("strategic", "merge", "json"), (3, 1, 1))[0]
        match kind:
            case "strategic":
                patch: Any = self._strategic(obj, sample)
            case "merge":
                patch = self._merge(obj, sample, root=True)
            case _:
                patch = [self._operation(obj, sample) for _ in range(self.chance.randint(1, 4))]
        return {"type": kind, "kind": sample["kind"], "object": obj, "patch": patch}

    def _part_of(self, value: Any, depth: int = 0) -> Any:
        """The object with some of its fields and items left out, and lists in another order."""
        if isinstance(value, dict):
            kept = {name: self._part_of(item, depth + 1) for name, item in value.items()}
            return {name: item for name, item in kept.items() if depth < 1 or self.chance.random() < 0.85}
        if isinstance(value, list):
            items = [self._part_of(item, depth + 1) for item in value if self.chance.random() < 0.85]
            if self.chance.random() < 0.2:
                self.chance.shuffle(items)
            return items
        return value

    def _merge(self, now: Any, sample: Any, *, root: bool = False) -> Any:
        """At the root always an object: nothing else is a merge patch to an API server."""
        if not isinstance(now, dict) or not isinstance(sample, dict) or (not root and self.chance.random() < 0.05):
            return self._value(sample)
        patch: dict[str, Any] = {}
        for name in self._some(sample.keys() | now.keys()):
            if self.chance.random() < 0.25:
                patch[name] = None
            else:
                patch[name] = self._merge(now.get(name), sample.get(name))
        return patch

    def _strategic(self, now: Any, sample: Any) -> Any:
        if not isinstance(sample, dict):
            return self._value(sample)
        now = now if isinstance(now, dict) else {}
        patch: dict[str, Any] = {}
        for name in self._some(sample.keys() | now.keys()):
            value = sample.get(name, now.get(name))
            if self.chance.random() < 0.15:
                patch[name] = None
            elif isinstance(value, list):
                self._list(patch, name, now.get(name), value)
            elif isinstance(value, dict):
                patch[name] = self._strategic(now.get(name), value)
            else:
                patch[name] = self._value(value)
        match self.chance.randrange(40):
            case 0:
                patch["$patch"] = self.chance.choice(("replace", "delete", "merge", "other"))
            case 1:
                patch["$retainKeys"] = [name for name in sample if self.chance.random() < 0.6]
        return patch

    def _list(self, patch: dict[str, Any], name: str, now: Any, value: list[Any]) -> None:
        now = now if isinstance(now, list) else []
        items = [self._item(item) for item in value if self.chance.random() < 0.5]
        if self.chance.random() < 0.05:
            items.append({"$patch": "replace"})
        if self.chance.random() < 0.3:
            self.chance.shuffle(items)
        if all(not isinstance(item, dict) for item in value) and self.chance.random() < 0.3:
            patch[f"$deleteFromPrimitiveList/{name}"] = [item for item in value if self.chance.random() < 0.5]
        if self.chance.random() < 0.3:
            patch[f"$setElementOrder/{name}"] = self._order(items, now)
        if self.chance.random() < 0.9:
            patch[name] = items

    def _item(self, item: Any) -> Any:
        """One of a list: changed under the same key, taken out, under another key, or without one."""
        if not isinstance(item, dict):
            return self._value(item)
        changed = self._strategic(item, item) | {key: item[key] for key in MERGE_KEYS if key in item}
        match self.chance.randrange(10):
            case 0:
                changed["$patch"] = "delete"
            case 1:
                key = self.chance.choice(MERGE_KEYS)
                changed[key] = "new" if isinstance(changed.get(key, ""), str) else 99
            case 2:
                changed.pop(next((key for key in MERGE_KEYS if key in changed), ""), None)
        return changed

    def _order(self, items: list[Any], now: list[Any]) -> list[Any]:
        """Mostly an order that kubectl could have sent: of the patch's items and the live ones."""
        order: list[Any] = []
        for item in [*items, *now]:
            if isinstance(item, dict):
                key = next((key for key in MERGE_KEYS if key in item), None)
                entry: Any = {key: item[key]} if key else {}
            else:
                entry = item
            if entry not in order:
                order.append(entry)
        if self.chance.random() < 0.4:
            self.chance.shuffle(order)
        return order[1:] if self.chance.random() < 0.1 else order

    def _value(self, like: Any) -> Any:
        choice = self.chance.random()
        if choice < 0.4:
            return copy.deepcopy(like)
        if choice < 0.9 and isinstance(like, str):
            return self.chance.choice(("x", "y", "http", "v1"))
        return self.chance.choice(SCALARS)

    def _some(self, names: Any) -> list[str]:
        ordered = sorted(names)
        return [name for name in ordered if self.chance.random() < 0.5]

    def _operation(self, now: Any, sample: Any) -> dict[str, Any]:
        operation: dict[str, Any] = {"op": self.chance.choice(OPERATIONS), "path": self._pointer(now)}
        if operation["op"] in ("move", "copy"):
            operation["from"] = self._pointer(now)
        elif operation["op"] != "remove":
            operation["value"] = self._value(self._at(now, operation["path"]))
        return operation

    def _pointer(self, value: Any) -> str:
        steps: list[str] = []
        while isinstance(value, (dict, list)) and value and self.chance.random() < 0.8:
            if isinstance(value, dict):
                name = self.chance.choice(sorted(value))
                steps.append(name.replace("~", "~0").replace("/", "~1"))
                value = value[name]
            else:
                at = self.chance.randrange(len(value))
                steps.append(str(at))
                value = value[at]
        if self.chance.random() < 0.2:
            steps.append(self.chance.choice(("new", "-", "0", "1", "-1", "99", "01", "x~1y")))
        return "".join(f"/{step}" for step in steps)

    def _at(self, value: Any, pointer: str) -> Any:
        for step in pointer.split("/")[1:]:
            if isinstance(value, dict):
                value = value.get(step.replace("~1", "/").replace("~0", "~"))
            elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
        return value
