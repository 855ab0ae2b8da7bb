"""Thousands of damaged objects of every kind served, judged by kube-apiserver and by ours in one run.

Accepted or refused, the HTTP code, the fields that are named, and the whole object that an accepted write would leave
must be the same. HEADRACE_VERDICTS says how many (default 2000), HEADRACE_VERDICTS_SEED which ones.
"""

import copy
import os
import random
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.api import kinds
from headrace.api.kinds import Kind
from headrace.client.http import Client
from headrace.client.paths import collection_path, object_path
from tests.objects.referee import judging
from tests.objects.referee.judging import Verdict
from tests.objects.referee.mutations import mutated
from tests.objects.referee.samples import NAMESPACE, REGISTRY, SAMPLES, Servers, kind_of, named

pytestmark = pytest.mark.cluster

COUNT = int(os.environ.get("HEADRACE_VERDICTS", "2000"))
SEED = int(os.environ.get("HEADRACE_VERDICTS_SEED", "1"))
RICH = ("Pod", "Deployment", "HorizontalPodAutoscaler")


@dataclass(frozen=True)
class Difference:
    kind: str
    done: str
    ours: Verdict
    theirs: Verdict


def test_every_kind_served_has_a_sample() -> None:
    assert {kind_of(each) for each in SAMPLES} == {served.kind for served in REGISTRY.all()}


def damaged(seed: int, count: int) -> list[tuple[dict[str, Any], dict[str, Any], str]]:
    """Sample, damaged copy, and what was done; the samples themselves first."""
    chance = random.Random(seed)
    weights = [3 if each["kind"] in RICH else 1 for each in SAMPLES]
    cases = [(each, copy.deepcopy(each), "as it is") for each in SAMPLES]
    while len(cases) < count:
        sample = chance.choices(SAMPLES, weights)[0]
        cases.append((sample, *mutated(sample, chance)))
    return cases


def on_purpose(ours: Verdict, theirs: Verdict) -> bool:
    """What our home decides otherwise, each with its reason."""
    only_theirs = theirs.fields - ours.fields
    if ours.fields <= theirs.fields and only_theirs and all(each.endswith(".policies") for each in only_theirs):
        return True  # an empty list of scaling policies is one that was left out: it gets the default
    return (
        "cannot unmarshal array" in ours.words and "data of type" in ours.words.lower()
    )  # Go takes a list of numbers for bytes


def told(differences: list[Difference], count: int) -> str:
    lines = [f"{len(differences)} of {count} verdicts differ"]
    for each in differences[:20]:
        lines.append(f"{each.kind}: {each.done}")
        for name, verdict in (("ours", each.ours), ("kube-apiserver", each.theirs)):
            shown = verdict.stored.decode() if each.ours.code == each.theirs.code == 200 else verdict.words
            lines.append(f"  {name}: {verdict.code} {sorted(verdict.fields)} {shown[:1000]}")
    return "\n".join(lines)


async def test_new_objects_are_judged_alike(servers: Servers) -> None:
    differences = []
    cases = damaged(SEED, COUNT * 2 // 3)
    for _, obj, done in cases:
        kind = kind_of(obj)
        ours, theirs = await judging.both(
            judging.create(servers.ours, kind, obj, NAMESPACE), judging.create(servers.theirs, kind, obj, NAMESPACE)
        )
        if not ours.same_as(theirs) and not on_purpose(ours, theirs):
            differences.append(Difference(obj["kind"], done, ours, theirs))
    assert not differences, told(differences, len(cases))


async def test_changes_are_judged_alike(servers: Servers) -> None:
    versions: dict[tuple[Client, Kind, str], str] = {}
    for sample in SAMPLES:
        kind, obj = kind_of(sample), named(copy.deepcopy(sample))
        for client in (servers.ours, servers.theirs):
            path = collection_path(kind, NAMESPACE if kind.namespaced else "")
            made = await client.request("POST", path, body=obj)
            versions[client, kind, obj["metadata"]["name"]] = made["metadata"]["resourceVersion"]
    differences = []
    cases = damaged(SEED + 1, COUNT // 3)
    for number, (sample, obj, done) in enumerate(cases):
        kind, name = kind_of(obj), named(copy.deepcopy(sample))["metadata"]["name"]

        def stated(client: Client, obj: Any = obj, kind: Kind = kind, name: str = name, number: int = number) -> Any:
            """With the version that is there, as a client sends it; every fourth without."""
            if not isinstance(obj.get("metadata"), dict):
                return obj
            known = {"resourceVersion": versions[client, kind, name]} if number % 4 else {}
            return {**obj, "metadata": {"name": name, **obj["metadata"], **known}}

        if kind == kinds.CUSTOM_RESOURCE_DEFINITION:  # controllers inside kube-apiserver write its status
            for client in (servers.ours, servers.theirs):
                there = await client.request("GET", object_path(kind, "", name))
                versions[client, kind, name] = there["metadata"]["resourceVersion"]
        ours, theirs = await judging.both(
            judging.replace(servers.ours, kind, stated(servers.ours), NAMESPACE, name),
            judging.replace(servers.theirs, kind, stated(servers.theirs), NAMESPACE, name),
        )
        if not ours.same_as(theirs) and not on_purpose(ours, theirs):
            differences.append(Difference(obj["kind"], done, ours, theirs))
    assert not differences, told(differences, len(cases))
