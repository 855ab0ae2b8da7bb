"""Random allocation cases: small enough for the plain walk, varied enough to reach every branch of the fast one."""

from random import Random
from typing import Any

GPU = "gpu.example.com"
NIC = "nic.example.com"

SELECTORS = (
    f'device.driver == "{GPU}"',
    f'device.driver == "{NIC}"',
    f'device.attributes["{GPU}"].model == "A"',
    f'device.attributes["{GPU}"].model == "B"',
    f'device.attributes["{GPU}"].numa == 0',
)
ATTRIBUTES = (f"{GPU}/numa", f"{GPU}/root", "resource.kubernetes.io/pcieRoot")
TAINTS = ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "m", "effect": "NoExecute"})


def case(seed: int, *, devices: int = 7, error_rate: float = 0.02) -> dict[str, Any]:
    """One node, one to three claims. With `error_rate` an attribute is left out, so that selectors may fail."""
    random = Random(seed)
    kind = random.choice(("plain", "match", "counters", "shares", "mixed"))
    slices = [*_devices(random, kind, random.randint(1, devices), error_rate)]
    held = [
        _held(random, each["spec"], device)
        for each in slices
        for device in each["spec"].get("devices", ())
        if random.random() < 0.15
    ]
    return {
        "name": f"random-{seed}",
        "nodes": [{"metadata": {"name": "n"}}],
        "node": "n",
        "slices": slices,
        "classes": [
            {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": SELECTORS[0]}}]}},
            {"metadata": {"name": "nic"}, "spec": {"selectors": [{"cel": {"expression": SELECTORS[1]}}]}},
            {"metadata": {"name": "any"}, "spec": {}},
        ],
        "claims": [_claim(random, kind, number) for number in range(random.choice((1, 1, 2, 3)))],
        "allocated": held,
    }


def _held(random: Random, spec: dict[str, Any], device: dict[str, Any]) -> dict[str, Any]:
    held = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
    if "allowMultipleAllocations" in device and random.random() < 0.8:
        held |= {"shareID": "s", "consumedCapacity": {"memory": str(random.randint(0, 3))}}
    return held


def _devices(random: Random, kind: str, number: int, error_rate: float) -> list[dict[str, Any]]:
    slices = []
    for driver, share in ((GPU, number), (NIC, random.randint(0, 2))):
        has_counters = driver == GPU and kind in ("counters", "mixed")
        devices = [_device(random, kind, at, driver, error_rate, has_counters) for at in range(share)]
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 2 if has_counters else 1}
        slices.append(
            {
                "metadata": {"name": f"{driver}-d"},
                "spec": {"driver": driver, "nodeName": "n", "pool": pool, "devices": devices},
            }
        )
        if has_counters:
            sets = [
                {"name": name, "counters": {"memory": {"value": str(random.randint(2, 8))}, "cores": {"value": "6"}}}
                for name in ("s0", "s1")
            ]
            slices.append(
                {
                    "metadata": {"name": f"{driver}-c"},
                    "spec": {"driver": driver, "nodeName": "n", "pool": pool, "sharedCounters": sets},
                }
            )
    return slices


def _device(random: Random, kind: str, at: int, driver: str, error_rate: float, has_counters: bool) -> dict[str, Any]:
    device: dict[str, Any] = {"name": f"d{at}", "attributes": {}}
    values = {
        "model": {"string": random.choice("AB")},
        "numa": {"int": random.randint(0, 2)},
        "root": random.choice(({"string": "r0"}, {"string": "r1"}, {"version": "1.0.0"})),
        "resource.kubernetes.io/pcieRoot": {"string": random.choice(("p0", "p1", "p2"))},
    }
    device["attributes"] = {name: value for name, value in values.items() if random.random() >= error_rate}
    if random.random() < 0.15:
        device["taints"] = [random.choice(TAINTS)]
    if kind in ("shares", "mixed") and random.random() < 0.6:
        device["allowMultipleAllocations"] = True
        device["capacity"] = {"memory": {"value": str(random.randint(1, 6))}}
    if has_counters and random.random() < 0.8:
        device["consumesCounters"] = [
            {"counterSet": name, "counters": {"memory": {"value": str(random.randint(0, 3))}, "cores": {"value": "1"}}}
            for name in random.sample(("s0", "s1"), random.choice((1, 1, 2)))
        ]
    return device


def _claim(random: Random, kind: str, number: int) -> dict[str, Any]:
    requests: list[dict[str, Any]] = []
    references = []
    for at in range(random.choice((1, 1, 2, 2, 3))):
        request: dict[str, Any] = {"name": f"r{at}"}
        if random.random() < 0.3:
            request["firstAvailable"] = [
                {"name": f"s{sub}", **_exactly(random, kind)} for sub in range(random.randint(1, 3))
            ]
            references += [f"r{at}", f"r{at}/s0"]
        else:
            request["exactly"] = _exactly(random, kind)
            if random.random() < 0.08:
                request["exactly"]["adminAccess"] = True
            references.append(f"r{at}")
        requests.append(request)
    constraints = []
    if kind in ("match", "mixed") or random.random() < 0.2:
        for _ in range(random.choice((1, 1, 2))):
            constraint: dict[str, Any] = {
                random.choice(("matchAttribute", "matchAttribute", "distinctAttribute")): random.choice(ATTRIBUTES)
            }
            if random.random() < 0.5:
                constraint["requests"] = random.sample(references, random.randint(1, len(references)))
            constraints.append(constraint)
    devices = {"requests": requests, "constraints": constraints}
    return {"metadata": {"name": f"c{number}", "namespace": "ns"}, "spec": {"devices": devices}}


def _exactly(random: Random, kind: str) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": random.choice(("gpu", "gpu", "gpu", "nic", "any"))}
    if random.random() < 0.04:
        exactly["allocationMode"] = "All"
    else:
        exactly |= {"allocationMode": "ExactCount", "count": random.choice((1, 1, 1, 2, 2, 3))}
    if exactly["deviceClassName"] == "gpu" and random.random() < 0.4:
        exactly["selectors"] = [{"cel": {"expression": random.choice(SELECTORS[2:])}}]
    if random.random() < 0.3:
        exactly["tolerations"] = [{"operator": "Exists"}]
    if kind in ("shares", "mixed") and random.random() < 0.5:
        exactly["capacity"] = {"requests": {"memory": str(random.randint(1, 4))}}
    return exactly
