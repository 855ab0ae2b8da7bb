"""Random allocation cases with everything that objects may hold, and much that they should not.

Several nodes, ways to name them, pools in several generations, slices that are missing or told twice, partitions,
shares with request policies, admin access, taints, configuration, broken classes and selectors, and all feature gates.
"""

from collections.abc import Sequence
from dataclasses import fields
from random import Random
from typing import Any, TypeVar

from headrace.devices.allocate.features import Features

Json = dict[str, Any]
T = TypeVar("T")

DRIVERS = ("a.example.com", "b.example.com", "B", "")
GATES = [field.name for field in fields(Features)]
STABLE, ALPHA = GATES[:7], GATES[7:]
AMOUNTS = ("0", "1", "2", "3", "4", "8", "500m", "1500m", "2500m", "1Ki", "1Gi", "3k", "100m", "1u", "1n")
LARGE = ("9223372036854775807", "1E", "8Ei", "16E", "-1", "-500m")
TEXTS = ("x", "y", "", "é", "x" * 64)
OTHERS = ("model", "b.example.com/root", "resource.kubernetes.io/pcieRoot", "odd/none")
NAMES = (("numa", *OTHERS), ("a.example.com/numa", *OTHERS))  # not both: which of the two counts is luck in Go
FULL_NAMES = (
    "a.example.com/numa", "a.example.com/model", "b.example.com/root", "resource.kubernetes.io/pcieRoot", "odd/none",
    "B/numa", "derived.example.com/size", "nodomain",
)  # fmt: skip
SAFE = (
    "true",
    'device.driver == "a.example.com"',
    'device.attributes["a.example.com"].?numa.orValue(0) < 2',
    '"model" in device.attributes["a.example.com"]',
    'device.attributes["b.example.com"].?root.orValue("") != "y"',
    "device.attributes.exists(d, device.attributes[d].exists(n, n == 'numa'))",
    "device.allowMultipleAllocations",
)
FAILING = (
    'device.attributes["a.example.com"].numa == 0',
    'device.attributes["a.example.com"].model.startsWith("x")',
    'device.capacity["a.example.com"].memory.compareTo(quantity("2")) >= 0',
    'device.attributes["resource.kubernetes.io"].pcieRoot == "x"',
)
BROKEN = ('device.attributes["a.example.com"].numa', "device.attributes[", "1", "unknown", "", "false")
DERIVED = ('device.attributes["a.example.com"].?numa.orValue(7)', "1 + 1", '["x", "y"]', "device.driver", "device.nope")
EFFECTS = ("NoSchedule", "NoExecute", "None", "Odd")
LABELS = ("zone", "kubernetes.io/hostname", "rank")
DECLARED = "DRAOptionalNodeOperations"


class Making:
    """One case; how odd it is differs from case to case."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.oddity = self.random.choice((0.0, 0.0, 0.005, 0.03))
        self.features = self.gates()
        self.safe = self.maybe(0.7)
        self.kinds = {kind for kind in ("counters", "shares", "nodes", "taints", "pools", "config") if self.maybe(0.35)}

    def gates(self) -> Json | None:
        kind = self.one(("default", "default", "each", "alpha", "one alpha", "all", "one off"))
        if kind == "default":
            return None
        on = dict.fromkeys(STABLE, True)
        if kind == "each":
            return {name: self.maybe(0.6) for name in STABLE}
        if kind == "alpha":
            return {name: self.maybe(0.7) for name in GATES}
        if kind == "one alpha":
            return {**on, self.one(ALPHA): True}
        if kind == "one off":
            return {**on, self.one(STABLE): False}
        return dict.fromkeys(GATES, True)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def is_on(self, gate: str) -> bool:
        return self.features is None or bool(self.features.get(gate))

    def odd(self) -> bool:
        return self.random.random() < self.oddity

    def one(self, of: Sequence[T]) -> T:
        return self.random.choice(of)

    def some(self, of: Sequence[T], most: int = 3) -> list[T]:
        return self.random.sample(of, self.random.randint(0, min(most, len(of))))

    # Nodes and slices

    def node(self, name: str) -> Json:
        found: Json = {"metadata": {"name": name}}
        if self.maybe(0.8):
            found["metadata"]["labels"] = {label: self.one(("1", "2", "x")) for label in self.some(LABELS)}
        if self.maybe(0.5):
            found["status"] = {"declaredFeatures": [DECLARED]}
        return found

    def node_selector(self) -> Json:
        terms: list[Json] = []
        for _ in range(self.one((1, 1, 1, 2, 0) if self.odd() else (1, 1, 1, 2))):
            term: Json = {"matchExpressions": [self.expression() for _ in range(self.one((0, 1, 1, 2)))]}
            if self.maybe(0.3):
                term["matchFields"] = [self.field()]
            terms.append(term)
        return {"nodeSelectorTerms": terms}

    def expression(self) -> Json:
        operator = self.one(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        values = {"In": ["1", "x"], "NotIn": ["2"], "Gt": ["1"], "Lt": ["2"]}.get(operator, [])
        key = self.one(LABELS)
        if self.odd():
            operator = self.one((operator, "Odd", ""))
            values = self.one((values, [], ["1", "2"], ["x y"], ["x" * 64], ["9999999999999999999"], ["", "-"], ["+1"]))
            key = self.one((key, "", "a b", "/x", "A/x", "x" * 64, "a/b/c", "-x"))
        return {"key": key, "operator": operator, **({"values": values} if values else {})}

    def field(self) -> Json:
        names = self.some(("n0", "n1", "n2"), 1) or ["n0"]
        operator, key = self.one(("In", "NotIn")), "metadata.name"
        if self.odd():
            operator, names = self.one(("In", "Exists", "Gt", "")), self.one((names, [], ["n0", "n1"], [""]))
            key = self.one((key, "metadata.namespace", ""))
        return {"key": key, "operator": operator, "values": names}

    def place(self) -> Json:
        if "nodes" not in self.kinds:
            return {"allNodes": True} if self.maybe(0.2) else {"nodeName": "n0"}
        return self.one(
            [{"nodeName": self.one(("n0", "n1", "n2"))}, {"allNodes": True}, {"nodeSelector": self.node_selector()}]
            + ([{}, {"allNodes": False}, {"nodeName": ""}] if self.odd() else [])
        )

    def pools(self) -> list[Json]:
        found: list[Json] = []
        for number in range(self.random.randint(1, 4)):
            driver = self.one(DRIVERS if self.odd() else DRIVERS[:2])
            name = self.one(("p", "p", "q")) if "pools" in self.kinds else f"p{number}"
            generation = self.one((1, 1, 2, 3)) if "pools" in self.kinds else 1
            found += self.pool(driver, name, generation)
        self.random.shuffle(found)
        return found

    def pool(self, driver: str, name: str, generation: int) -> list[Json]:
        sets = [self.counter_set(each) for each in ("s0", "s1")[: self.random.randint(1, 2)]]
        is_parted, number = "counters" in self.kinds and self.maybe(0.7), self.one((1, 1, 2))
        slices: list[Json] = []
        place, per_device = self.place(), "nodes" in self.kinds and self.maybe(0.3)
        for at in range(number):
            spec: Json = {"driver": driver, **({"perDeviceNodeSelection": True} if per_device else place)}
            begin = at * 4
            spec["devices"] = [
                self.device(f"d{begin + each}", is_parted, per_device) for each in range(self.random.randint(0, 4))
            ]
            if spec["devices"] and self.odd():
                spec["devices"].append(dict(self.one(spec["devices"])))
            if self.maybe(0.15):
                spec["skipNodeOperations"] = self.one((["*"], ["NodePrepareResources"], []))
            slices.append({"metadata": {"name": f"{name}-{generation}-{at}"}, "spec": spec})
        if is_parted:
            spec = {
                "driver": driver,
                "sharedCounters": sets,
                **({"perDeviceNodeSelection": True} if per_device else place),
            }
            slices.append({"metadata": {"name": f"{name}-{generation}-c"}, "spec": spec})
        count = len(slices) + (self.one((-1, 1, 2)) if self.odd() or self.maybe(0.04) else 0)
        for each in slices:
            each["spec"]["pool"] = {"name": name, "generation": generation, "resourceSliceCount": count}
        return slices

    def counter_set(self, name: str) -> Json:
        return {"name": name, "counters": {each: {"value": self.amount(AMOUNTS[2:8])} for each in ("memory", "cores")}}

    def amount(self, of: Sequence[str] = AMOUNTS) -> str:
        return self.one(LARGE) if self.odd() else self.one(of)

    def device(self, name: str, is_parted: bool, per_device: bool) -> Json:
        found: Json = {"name": "" if self.odd() else name}
        found["attributes"] = {key: self.attribute() for key in self.some(self.one(NAMES), 5)}
        if per_device:
            found |= self.place()
        if "shares" in self.kinds and self.maybe(0.7):
            found["allowMultipleAllocations"] = self.maybe(0.85)
            found["capacity"] = {key: self.capacity() for key in self.some(("memory", "cores", "a.example.com/odd"))}
        if is_parted and self.maybe(0.85):
            found["consumesCounters"] = [
                self.consumes(each) for each in self.random.sample(("s0", "s1"), self.one((1, 1, 2)))
            ]
        if "taints" in self.kinds and self.maybe(0.4):
            found["taints"] = [self.taint() for _ in range(self.one((1, 1, 2)))]
        if self.maybe(0.15):
            found["bindingConditions"] = self.some(("ready", "attached"), 2)
            found["bindingFailureConditions"] = self.some(("failed",), 1)
            found["bindsToNode"] = self.maybe(0.5)
        return found

    def consumes(self, name: str) -> Json:
        wanted = "s9" if self.odd() else name
        names = ("memory", "cores", "odd") if self.odd() else ("memory", "cores")
        found: Json = {"counterSet": wanted}
        found["counters"] = {each: {"value": self.amount(AMOUNTS[:8])} for each in self.some(names, 2) or ["memory"]}
        if self.maybe(0.5):
            found["compatibilityGroups"] = self.some(("mig", "vgpu", "mps"), 2)
        return found

    def attribute(self) -> Json:
        values: list[Json] = [
            {"string": self.one(TEXTS)}, {"int": self.one((0, 1, 2, -1, 2**63 - 1))}, {"bool": self.maybe(0.5)},
            {"version": self.one(("1.0.0", "1.0.0-rc.1", "2.1.3+b"))},
        ]  # fmt: skip
        if self.maybe(0.15):
            values = [
                {"strings": self.some(TEXTS)}, {"ints": self.some((0, 1, 2))}, {"bools": self.some((True, False))},
                {"versions": self.some(("1.0.0", "2.0.0"))},
            ]  # fmt: skip
            values = [each for each in values if all(each.values())] or [{"int": 1}]
        return self.one([{}, {"version": "no"}]) if self.odd() else self.one(values)

    def capacity(self) -> Json:
        found: Json = {"value": self.amount(AMOUNTS[3:])}
        if self.maybe(0.6):
            policy: Json = {"default": self.amount()}
            if self.maybe(0.5):
                bounds = {"min": self.amount(), "max": self.amount(AMOUNTS[3:]), "step": self.amount(AMOUNTS[1:9])}
                policy["validRange"] = {name: bounds[name] for name in ("min", *self.some(("max", "step"), 2))}
            elif self.maybe(0.7):
                policy["validValues"] = [self.amount() for _ in range(self.random.randint(1, 3))]
            found["requestPolicy"] = policy
        return found

    def taint(self) -> Json:
        effects = EFFECTS if self.odd() else EFFECTS[:3]
        return {"key": self.one(("k", "l")), "effect": self.one(effects), **({"value": "v"} if self.maybe(0.5) else {})}

    # Classes and claims

    def classes(self) -> list[Json]:
        made = []
        for name in ("a", "b", "any", "broken"):
            texts = {
                "a": ['device.driver == "a.example.com"'],
                "b": ['device.driver == "b.example.com"'],
                "any": [],
            }.get(name, self.some((*FAILING, *BROKEN), 2))
            spec: Json = {"selectors": [{"cel": {"expression": text}} for text in texts]}
            if "config" in self.kinds and self.maybe(0.5):
                spec["config"] = [self.config() for _ in range(self.random.randint(1, 2))]
            made.append({"metadata": {"name": name}, "spec": spec})
        return [each for each in made if not self.odd()]

    def config(self) -> Json:
        return {"opaque": {"driver": self.one(DRIVERS), "parameters": {"at": self.random.randint(0, 9)}}}

    def selectors(self) -> list[Json]:
        of = BROKEN if self.odd() else SAFE if self.safe else (*SAFE, *FAILING)
        found = [{"cel": {"expression": self.one(of)}} for _ in range(self.one((0, 0, 0, 1, 1, 2)))]
        return [*found, {}] if self.odd() else found

    def wanted(self) -> Json:
        name = self.one(("", "missing", "broken")) if self.odd() else self.one(("a", "a", "b", "any", "any"))
        found: Json = {"deviceClassName": name, "selectors": self.selectors()}
        if self.maybe(0.12):
            found["allocationMode"] = "All"
        elif not self.odd():
            found |= {
                "allocationMode": "ExactCount",
                "count": self.one((0, 33, 40, -1) if self.odd() else (1, 1, 1, 2, 3)),
            }
        elif self.maybe(0.5):
            found["allocationMode"] = "Odd"
        if "taints" in self.kinds and self.maybe(0.5):
            found["tolerations"] = [self.toleration() for _ in range(self.one((1, 2)))]
        if "shares" in self.kinds and (self.maybe(0.5) if self.is_on("ConsumableCapacity") else self.odd()):
            names = ("memory", "cores", "a.example.com/odd", "none") if self.odd() else ("memory", "cores")
            found["capacity"] = {"requests": {each: self.amount() for each in self.some(names, 2)}}
        if (self.features or {}).get("DerivedAttributes") or self.odd():
            text = self.one(DERIVED if self.odd() else DERIVED[:4])
            found["derivedAttributes"] = [{"name": "derived.example.com/size", "expression": text}]
        return found

    def toleration(self) -> Json:
        found: Json = {"operator": self.one(("Exists", "Equal", "Equal", "Odd") if self.odd() else ("Exists", "Equal"))}
        if self.maybe(0.7):
            found["key"] = self.one(("k", "l"))
        if found["operator"] == "Equal" and self.maybe(0.7):
            found["value"] = "v"
        if self.maybe(0.5):
            found["effect"] = self.one(EFFECTS[:3])
        if self.maybe(0.3):
            found["tolerationSeconds"] = self.one((0, 60, -1))
        return found

    def claim(self, number: int) -> Json:
        requests: list[Json] = []
        references: list[str] = []
        for at in range(self.one((0, 1, 1, 1, 2, 2, 3, 4)) if self.maybe(0.9) else 1):
            name = f"r{0 if self.odd() else at}"
            references.append(name)
            if self.maybe(0.3) and (self.is_on("PrioritizedList") or self.odd()):
                subs = [{"name": f"s{each}", **self.wanted()} for each in range(self.random.randint(1, 4))]
                references += [f"{name}/{each['name']}" for each in subs]
                requests.append({"name": name, "firstAvailable": subs})
            else:
                wanted = self.wanted()
                if self.maybe(0.08) and (self.is_on("AdminAccess") or self.odd()):
                    wanted["adminAccess"] = self.maybe(0.8)
                requests.append({"name": name, **({} if self.odd() else {"exactly": wanted})})
        devices: Json = {
            "requests": requests,
            "constraints": [self.constraint(references) for _ in range(self.one((0, 0, 0, 1, 2)))],
        }
        if "config" in self.kinds:
            devices["config"] = [
                {**self.config(), "requests": self.some(references)} for _ in range(self.random.randint(0, 2))
            ]
        found = {
            "metadata": {"name": f"c{number}", "namespace": self.one(("ns", "admin"))},
            "spec": {"devices": devices},
        }
        if self.odd() or self.maybe(0.05):
            result = {"request": "r0", "driver": "a.example.com", "pool": "p0", "device": "d0"}
            found["status"] = {"allocation": {"devices": {"results": [result]}}}
        return found

    def constraint(self, references: list[str]) -> Json:
        found: Json = {}
        if not self.odd():
            found[self.one(("matchAttribute", "matchAttribute", "distinctAttribute"))] = self.one(FULL_NAMES)
        if references and self.maybe(0.5):
            found["requests"] = self.some(references, 3)
        return found

    # All of it

    def held(self, slices: list[Json]) -> list[Json]:
        found: list[Json] = []
        for spec in (each["spec"] for each in slices):
            for device in spec.get("devices", ()):
                if self.maybe(0.8):
                    continue
                held: Json = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
                if device.get("allowMultipleAllocations") and self.maybe(0.85):
                    for share in range(self.one((1, 1, 2))):
                        amounts = {name: self.amount(AMOUNTS[:8]) for name in device["capacity"]}
                        found.append({**held, "shareID": f"share-{share}", "consumedCapacity": amounts})
                else:
                    found.append(held)
        return found


def odd_case(seed: int) -> Json:
    """The same seed gives the same case."""
    making = Making(seed)
    slices = making.pools()
    names = ["n0", "n1", "n2"] if "nodes" in making.kinds else ["n0"]
    found: Json = {
        "name": f"odd-{seed}",
        "nodes": [making.node(name) for name in names],
        "node": making.one(("*", "*", "n0", names[-1])),
        "slices": slices,
        "classes": making.classes(),
        "claims": [making.claim(number) for number in range(making.one((1, 1, 1, 1, 2, 3)))],
        "allocated": making.held(slices),
    }
    return found if making.features is None else {**found, "features": making.features}
