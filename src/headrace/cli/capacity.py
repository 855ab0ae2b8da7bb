"""`headrace capacity`: each node's ledger as bars, with who holds what; folded from the same objects as the guard's."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from headrace.cli.connection import Target, connected, run, targeted
from headrace.ledger.books import Books
from headrace.ledger.devices import Pool
from headrace.ledger.node import Ledger

BAR = 30
RESERVED, ALLOCATED, FREE, OVER = "▒", "█", "·", "!"
ENFORCEMENT = "headrace.dev/enforcement"


@click.command()
@click.argument("node", required=False)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
@targeted
def capacity(node: str | None, output: str, target: Target) -> None:
    """Show each node's ledger: total, reserved, allocated, available, and who holds it."""
    run(_capacity(node, output, target))


async def _capacity(node: str | None, output: str, target: Target) -> None:
    from headrace.api.kinds import NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
    from headrace.api.objects import name_of, namespace_of
    from headrace.store.kubernetes import KubernetesStore

    objects = []
    async with connected(target) as (client, _):
        store = KubernetesStore(client)
        for kind in (NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE):
            found = (await store.list(kind)).items
            objects += [((kind.resource, namespace_of(obj), name_of(obj)), obj) for obj in found]
    books = Books.fold(objects)
    nodes = {key[2]: obj for key, obj in objects if key[0] == NODE.resource}
    if node is not None and node not in nodes:
        raise click.ClickException(f'node "{node}" not found; there are: {", ".join(sorted(nodes)) or "none"}')
    shown = sorted(nodes) if node is None else [node]
    if output == "table":
        if not shown:
            click.echo("No nodes yet: start an agent with `headrace up` or `headrace agent`.", err=True)
        for index, name in enumerate(shown):
            if index:
                click.echo()
            for line in lines(name, nodes[name], books):
                click.echo(line)
        return
    document = {"nodes": [told(name, books) for name in shown]}
    if output == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def told(name: str, books: Books) -> dict[str, Any]:
    """The ledger as data: whole numbers, cpu in millicores, memory in bytes."""
    ledger = books.nodes()[name]
    return {
        "name": name,
        "total": dict(ledger.total),
        "reserved": dict(ledger.reserved),
        "allocated": dict(ledger.allocated),
        "available": dict(ledger.available()),
        "holders": {holder: dict(held) for holder, held in sorted(ledger.holders.items())},
        "unbounded": {h: list(found) for h, found in sorted(books.unbounded().items()) if h in ledger.holders},
        "devices": {
            "/".join(pool.key): {device: [s.owner for s in pool.used.get(device, ())] for device in pool.devices}
            for pool in _pools(name, books)
        },
    }


def lines(name: str, node: Mapping[str, Any], books: Books) -> Iterator[str]:
    """The ledger of one node as people read it."""
    from headrace.api.amounts import written

    ledger, unbounded = books.nodes()[name], books.unbounded()
    yield f"{name}   {_enforcement(node)}"
    for resource in ("cpu", "memory", *sorted(set(ledger.total) - {"cpu", "memory"})):
        total, held = ledger.total.get(resource, 0), ledger.allocated.get(resource, 0)
        reserved, room = ledger.reserved.get(resource, 0), ledger.room(resource)
        figures = f"{written(resource, total)} total"
        if reserved:
            figures += f", {written(resource, reserved)} reserved"
        figures += f", {written(resource, held)} allocated, {written(resource, room)} available"
        yield f"  {resource:<8} {bar(total, reserved, held)}  {figures}"
        if resource in ("cpu", "memory"):
            for holder, amount in _holders(ledger, resource):
                note = "  (no limit: may use more)" if holder in unbounded else ""
                yield f"             {written(resource, amount):>8}  {holder}{note}"
    for pool in _pools(name, books):
        yield f"  devices  {pool.key[0]}, pool {pool.key[1]}: {len(pool.used)} of {len(pool.devices)} in use"
        for device in pool.devices:
            owners = ", ".join(share.owner for share in pool.used.get(device, ())) or "free"
            yield f"             {device:>8}  {owners}"


def bar(total: int, reserved: int, allocated: int) -> str:
    """A picture of 30 characters: reserved, allocated, free; a node that holds more than it has ends in `!`."""
    if total <= 0:
        return (OVER if allocated > 0 else FREE) * BAR
    first = min(BAR, -(-reserved * BAR // total))
    both = min(BAR, max(first, -(-(reserved + allocated) * BAR // total)))
    picture = RESERVED * first + ALLOCATED * (both - first) + FREE * (BAR - both)
    return picture[:-1] + OVER if reserved + allocated > total else picture


def _holders(ledger: Ledger, resource: str) -> list[tuple[str, int]]:
    found = [(holder, held[resource]) for holder, held in ledger.holders.items() if held.get(resource)]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


def _pools(name: str, books: Books) -> list[Pool]:
    return sorted((pool for pool in books.pools().values() if pool.node == name), key=lambda pool: pool.key)


def _enforcement(node: Mapping[str, Any]) -> str:
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(ENFORCEMENT)
    if not text:
        return ""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return ""
    kinds = {str(found.get("cpu")), str(found.get("memory"))}
    return f"limits {' and '.join(sorted(kinds))}: {found.get('detail', '')}".rstrip(": ")
