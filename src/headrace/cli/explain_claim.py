"""`headrace explain claim NAME`: what a claim has and who uses it, or what each node lacks for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from headrace.api.objects import name_of
from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.names import missing

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Devices:
    """What allocation decides from: every node, slice, class, claim and DeviceTaintRule of the server."""

    nodes: Sequence[dict[str, Any]]
    slices: Sequence[dict[str, Any]]
    classes: Sequence[dict[str, Any]]
    claims: Sequence[dict[str, Any]]
    rules: Sequence[dict[str, Any]] = ()

    def must_have(self, node: str) -> None:
        """Raises ClickException for a node that is not there; nothing for no name."""
        names = [name_of(each) for each in self.nodes]
        if node and node not in names:
            raise click.ClickException(missing("node", node, names))


@click.command(short_help="What a claim has, or why it waits.")
@click.argument("name")
@click.option("--node", default="", help="Only this node.")
@targeted
def claim(name: str, node: str, target: Target) -> None:
    """What a claim has, or per node, request and selector, what its devices were lost to."""
    run(_claim(name.removeprefix("resourceclaim/"), node, target))


async def _claim(name: str, node: str, target: Target) -> None:
    from headrace.api.kinds import RESOURCE_CLAIM
    from headrace.store.kubernetes import KubernetesStore

    async with connected(target) as (client, namespace):
        store = KubernetesStore(client)
        claim = await store.get(RESOURCE_CLAIM, name, namespace)
        devices = await gather(store)
    devices.must_have(node)
    for line in lines(claim, devices, node):
        click.echo(line)


async def gather(store: Any) -> Devices:
    from headrace.api.kinds import DEVICE_CLASS, DEVICE_TAINT_RULE, NODE, RESOURCE_CLAIM, RESOURCE_SLICE

    kinds = (NODE, RESOURCE_SLICE, DEVICE_CLASS, RESOURCE_CLAIM, DEVICE_TAINT_RULE)
    found = [(await store.list(kind)).items for kind in kinds]
    return Devices(*found)


def lines(claim: Json, devices: Devices, node: str = "") -> Iterator[str]:
    """The explanation of one claim, as people read it."""
    meta, status = claim["metadata"], claim.get("status") or {}
    allocation = status.get("allocation")
    yield f"ResourceClaim {meta['namespace']}/{meta['name']}: {'allocated' if allocation else 'not allocated'}"
    if not allocation:
        yield from wanting([claim], devices, node)
        yield from classless([claim], devices)
        return
    for each in (allocation.get("devices") or {}).get("results") or ():
        share = f" (share {each['shareID']})" if each.get("shareID") else ""
        yield f"  request {each['request']} has {each['driver']}/{each['pool']}/{each['device']}{share}"
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for each in (*(term.get("matchFields") or ()), *(term.get("matchExpressions") or ())):
            values = ", ".join(each.get("values") or ())
            yield f"  good on nodes with {each['key']} {each['operator']} {values}".rstrip()
    for each in sorted(status.get("reservedFor") or (), key=lambda one: str(one.get("name"))):
        yield f"  used by {each.get('resource')} {each.get('name')}"
    if not status.get("reservedFor"):
        yield "  used by nobody: the allocation is about to be cleared"


def inventory_of(devices: Devices) -> Any:
    """All of it in the form that allocation looks things up in (an allocate.inventory.Inventory)."""
    from headrace.devices.allocate.inventory import Inventory
    from headrace.devices.taint_rules import tainted

    inventory = Inventory()
    for each in devices.slices:
        inventory.put_slice(each["metadata"]["name"], tainted(each, devices.rules))
    for each in devices.classes:
        inventory.put_class(each)
    for each in devices.claims:
        inventory.put_claim(f"{each['metadata']['namespace']}/{each['metadata']['name']}", each)
    return inventory


def wanting(claims: Sequence[Json], devices: Devices, node: str = "") -> Iterator[str]:
    """Node by node, what keeps it from serving these claims together; or that one would."""
    from headrace.devices.allocate.mending import mendings
    from headrace.devices.allocate.why import report

    inventory = inventory_of(devices)
    if not devices.nodes:
        yield "  there is no node"
    for each in devices.nodes:
        if node and each["metadata"]["name"] != node:
            continue
        failing = mendings(each, claims, inventory)
        found = report(each, claims, inventory)
        if failing:
            yield f"  node {found.node}:"
            yield from (f"    {line}" for mending in failing for line in mending.lines())
            continue
        if found.error is None and found.conflict is None and not any(one.is_short for one in found.requests):
            yield f"  node {found.node}: would serve it; claims are allocated when a Pod that uses them is scheduled"
            continue
        yield from (f"  {line}" for line in found.lines())


def classless(claims: Sequence[Json], devices: Devices) -> Iterator[str]:
    """The classes that these claims name and that are not there."""
    classes = {name_of(each) for each in devices.classes}
    for unknown in sorted(_classes_of(claims) - classes):
        yield "  " + missing("device class", unknown, classes)


def _classes_of(claims: Sequence[Json]) -> set[str]:
    requests = [one for each in claims for one in (each["spec"].get("devices") or {}).get("requests") or ()]
    exact = [one for each in requests for one in (each.get("exactly") or {}, *(each.get("firstAvailable") or ()))]
    return {one["deviceClassName"] for one in exact if one.get("deviceClassName")}
