"""`headrace simulate claim -f FILE`: which node and devices claims would get on a server now. Nothing is kept."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import click

from headrace.cli import manifests
from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.explain_claim import Devices, classless, gather, inventory_of, wanting
from headrace.cli.objects import columns

Json = Mapping[str, Any]
CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
NOTHING_FITS = 3  # exit status: 1 and 2 are errors


@dataclass(slots=True)
class Wanted:
    """What manifests ask for: claims that are allocated together, and the classes they bring along."""

    claims: list[dict[str, Any]] = field(default_factory=list)
    classes: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is printed, and whether any node would give all that is wanted."""

    lines: list[str]
    fits: bool


@click.command(short_help="Which devices claims would get on a server now.")
@click.option(
    "-f", "--filename", "files", multiple=True, required=True, help="ResourceClaims, templates, DeviceClasses."
)
@click.option("--node", default="", help="Only this node.")
@targeted
def claim(files: tuple[str, ...], node: str, target: Target) -> None:
    """Which node and devices these claims would get together, as things stand on the server. Nothing is created.

    Claims and templates of the files are checked and filled in by the server (a dry run); DeviceClasses in them count
    as if they were there. Works on a Kubernetes cluster too. Exit status: 0 where a node fits, 3 where none does.
    """
    run(_claim(files, node, target))


async def _claim(files: tuple[str, ...], node: str, target: Target) -> None:
    from headrace.store.kubernetes import KubernetesStore

    given = list(manifests.read(files))
    async with connected(target) as (client, namespace):
        store = KubernetesStore(client)
        wanted = await _admitted(store, given, namespace)
        devices = await gather(store)
    if not wanted.claims:
        raise click.UsageError(f"-f {', '.join(files)}: there is no {CLAIM} or {TEMPLATE} in it")
    devices.must_have(node)
    found = answer(wanted, devices, node)
    for line in found.lines:
        click.echo(line)
    if not found.fits:
        sys.exit(NOTHING_FITS)


async def _admitted(store: Any, given: Sequence[Json], namespace: str) -> Wanted:
    """The claims as the server would store them; raises its StoreError for what it would refuse."""
    from headrace.api import kinds

    wanted = Wanted()
    for number, each in enumerate(given):
        meta = each.get("metadata") or {}
        where = meta.get("namespace") or namespace
        # What is there already under the name does not matter: the question is what these claims would get.
        named = {
            "apiVersion": each["apiVersion"],
            "kind": each["kind"],
            "metadata": {"generateName": f"what-if-{number}-"},
        }
        if each["kind"] == "DeviceClass":
            found = await store.create(kinds.DEVICE_CLASS, {**each, **named}, "", dry_run=True)
            wanted.classes.append({**found, "metadata": {**found["metadata"], "name": meta.get("name", "")}})
        elif each["kind"] == CLAIM:
            found = await store.create(kinds.RESOURCE_CLAIM, {**named, "spec": each.get("spec")}, where, dry_run=True)
            wanted.claims.append({**found, "metadata": {**found["metadata"], "name": meta.get("name", "")}})
        elif each["kind"] == TEMPLATE:
            body = {**named, "spec": each.get("spec")}
            found = await store.create(kinds.RESOURCE_CLAIM_TEMPLATE, body, where, dry_run=True)
            inner = {"metadata": {**found["metadata"], "name": meta.get("name", "")}, "spec": found["spec"]["spec"]}
            wanted.claims.append(inner)
    return wanted


def answer(wanted: Wanted, devices: Devices, node: str = "") -> Answer:
    """A row for each node: the devices it would give, or that it would not; then why not, where there are few nodes."""
    from headrace.devices.allocate.allocator import Allocated, GaveUp, allocate

    brought = {each["metadata"]["name"] for each in wanted.classes}
    classes = [each for each in devices.classes if each["metadata"]["name"] not in brought]
    devices = Devices(devices.nodes, devices.slices, [*classes, *wanted.classes], devices.claims, devices.rules)
    inventory, share_ids = inventory_of(devices), (f"share-{number}" for number in count())
    rows, failing = [], []
    for each in devices.nodes:
        name = each["metadata"]["name"]
        if node and name != node:
            continue
        outcome = allocate(each, wanted.claims, inventory, share_ids)
        if isinstance(outcome, Allocated):
            rows.append([name, "yes", _given(outcome.results)])
            continue
        rows.append([name, "no", outcome.text if isinstance(outcome, GaveUp) else getattr(outcome, "error", "")])
        failing.append(name)
    if not rows:
        return Answer(["there is no node"], fits=False)
    found = list(columns(["NODE", "FITS", "DEVICES"], rows))
    if len(failing) == len(rows):
        for name in failing if node else failing[:_EXPLAINED]:
            found += wanting(wanted.claims, devices, name)
        found += classless(wanted.claims, devices)
    return Answer(found, fits=len(failing) < len(rows))


_EXPLAINED = 3


def _given(allocations: Sequence[Json]) -> str:
    results = [each for one in allocations for each in (one.get("devices") or {}).get("results") or ()]
    return ", ".join(f"{each['request']}: {each['driver']}/{each['pool']}/{each['device']}" for each in results) or "-"
