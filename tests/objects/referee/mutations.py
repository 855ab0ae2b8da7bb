"""Seeded damage to a valid object: fields dropped, retyped, replaced, doubled, and values from a list of bad ones."""

import copy
import random
from typing import Any

LONG = ("a" * 64, "a" * 254)
NAMES = ("", "UPPER", "-dash", "dash-", "a.b", "a_b", *LONG, "x y", "a/b/c", "1", "ok-name", "ünï", "a..b")
HUGE = "9223372036854775808"
QUANTITIES = ("0", "1", "-1", "1x", "1.5", "0.0001", "100m", "1e3", "1Gi", "1.0000001", "abc", "1E", HUGE)
NUMBERS = (-1, 0, 1, 2, 53, 100, 65535, 65536, 2**31 - 1, 2**31, 2**63, 1.5)
LABELS = {"bad key!": "v", "ok": "bad value!", "a/b/c": "v", "x" * 64: "v", "fine": "x" * 64, "Example.com/x": "y"}
POLICIES = ("Always", "Never", "None", "All", "Opaque", "unknown")
WORDS = (*POLICIES, "Exists", "NotIn", "In", "Gt", "NoSchedule", "TCP", "UDP")
OTHER_TYPES = (None, True, 7, "text", [], {}, ["text"], {"key": "value"}, 1.5)
FIXED = (("apiVersion",), ("kind",))

Path = tuple[str | int, ...]


def paths(value: Any, here: Path = ()) -> list[Path]:
    """Every place below the root."""
    found = [here] if here and here not in FIXED else []
    if isinstance(value, dict):
        found += [each for name, item in value.items() for each in paths(item, (*here, name))]
    elif isinstance(value, list):
        found += [each for at, item in enumerate(value) for each in paths(item, (*here, at))]
    return found


def mutated(sample: dict[str, Any], chance: random.Random) -> tuple[dict[str, Any], str]:
    """A damaged copy, and what was done to it in words."""
    obj = copy.deepcopy(sample)
    done = []
    for _ in range(chance.choices((1, 2, 3), (6, 3, 1))[0]):
        choices = paths(obj)
        if not choices:
            break
        done.append(_damage(obj, chance.choice(choices), chance))
    return obj, "; ".join(done)


def _damage(obj: dict[str, Any], path: Path, chance: random.Random) -> str:
    parent: Any = obj
    for step in path[:-1]:
        parent = parent[step]
    last = path[-1]
    value = parent[last]
    where = ".".join(map(str, path))
    kind = chance.choices(("drop", "other", "retype", "double", "unknown", "empty"), (4, 9, 2, 2, 1, 1))[0]
    if kind == "drop":
        del parent[last]
        return f"{where} dropped"
    if kind == "double" and isinstance(parent, list):
        parent.append(copy.deepcopy(value))
        return f"{where} doubled"
    if kind == "unknown" and isinstance(value, dict):
        value["unheardOf"] = 1
        return f"{where}.unheardOf added"
    if kind == "empty" and isinstance(value, (dict, list)):
        parent[last] = type(value)()
        return f"{where} emptied"
    if kind == "retype":
        parent[last] = copy.deepcopy(chance.choice(OTHER_TYPES))
    else:
        parent[last] = _other(value, chance)
    return f"{where} = {parent[last]!r}"[:120]


def _other(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return chance.choice(NUMBERS)
    if isinstance(value, str):
        return chance.choice(chance.choice((NAMES, NAMES, WORDS, QUANTITIES if value[:1].isdigit() else WORDS)))
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        key = chance.choice(list(LABELS))
        return {**value, key: LABELS[key]}
    if isinstance(value, list) and value:
        return [*value, copy.deepcopy(chance.choice(value))]
    return value
