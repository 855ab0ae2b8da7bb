"""`headrace capacity`: each node's ledger as bars, with who holds what: the guard's own books, as last committed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.names import missing
from headrace.ledger.books import Books
from headrace.ledger.document import LEDGER_PATH, BooksDocument, LedgerDocument, document
from headrace.ledger.node import Ledger

BAR = 30
RESERVED, ALLOCATED, FREE, OVER = "▒", "█", "·", "!"
UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
ENFORCEMENT = "headrace.dev/enforcement"


@click.command()
@click.argument("node", required=False)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
@targeted
def capacity(node: str | None, output: str, target: Target) -> None:
    """Show each node's ledger: total, reserved, allocated, available, and who holds it; exact with -o json."""
    run(_capacity(node, output, target))


async def _capacity(node: str | None, output: str, target: Target) -> None:
    from headrace.api.kinds import CAPACITY_RESERVATION, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
    from headrace.api.objects import name_of, namespace_of
    from headrace.store.kubernetes import KubernetesStore

    objects = []
    async with connected(target) as (client, _):
        store = KubernetesStore(client)
        served = await committed(client)
        for kind in (NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, CAPACITY_RESERVATION):
            found = (await store.list(kind)).items
            if kind == POD:
                found, unreadable = readable(found)
                click.echo("".join(f"{each}\n" for each in unreadable), err=True, nl=False)
            objects += [((kind.resource, namespace_of(obj), name_of(obj)), obj) for obj in found]
    books = Books.fold(objects)
    ledgers = (served or document(0, 0.0, books.nodes(), books.pools().values())).nodes
    nodes = {key[2]: obj for key, obj in objects if key[0] == NODE.resource and key[2] in ledgers}
    if node is not None and node not in nodes:
        raise click.ClickException(missing("node", node, nodes))
    shown = sorted(nodes) if node is None else [node]
    if output == "table":
        if not shown:
            click.echo("No nodes yet: start an agent with `headrace up` or `headrace agent`.", err=True)
        for index, name in enumerate(shown):
            if index:
                click.echo()
            for line in lines(nodes[name], ledgers[name], ledgers[name].ledger(name), books.unbounded()):
                click.echo(line)
        return
    told = {"nodes": [as_data(name, ledgers[name], books.unbounded()) for name in shown]}
    if output == "json":
        click.echo(json.dumps(told, indent=2))
    else:
        import yaml

        click.echo(yaml.safe_dump(told, sort_keys=False), nl=False)


def readable(pods: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The Pods without quantities that cannot be read, as a real cluster may have them, and a sentence on each such."""
    from headrace.api.objects import key_of
    from headrace.ledger.legible import legible

    found, told = [], []
    for pod in pods:
        legible_pod, why = legible(dict(pod))
        found.append(legible_pod)
        if why:
            told.append(f"Pod {key_of(pod)}: {why}; counted without it")
    return found, told


async def committed(client: Any) -> BooksDocument | None:
    """The books that the server's guard keeps; None from a server that has none (a real cluster)."""
    import msgspec

    from headrace.client.errors import ApiError

    try:
        return msgspec.convert(await client.request("GET", LEDGER_PATH), BooksDocument)
    except ApiError as refused:
        if refused.code in (403, 404):
            return None
        raise


def as_data(name: str, ledger: LedgerDocument, unbounded: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The ledger as data: whole numbers, cpu in millicores, memory in bytes."""
    return {
        "name": name,
        "total": ledger.total,
        "reserved": ledger.reserved,
        "allocated": ledger.allocated,
        "available": ledger.available,
        "holders": ledger.holders,
        "unbounded": {holder: list(found) for holder, found in sorted(unbounded.items()) if holder in ledger.holders},
        "devices": {
            pool: {device: list(owners) for device, owners in devices.items()}
            for pool, devices in ledger.devices.items()
        },
    }


def lines(
    node: Mapping[str, Any], told: LedgerDocument, ledger: Ledger, unbounded: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """The ledger of one node as people read it."""
    yield f"{ledger.node}   {enforcement(node)}"
    for resource in ("cpu", "memory", *sorted(set(ledger.total) - {"cpu", "memory"})):
        total, held = ledger.total.get(resource, 0), ledger.allocated.get(resource, 0)
        reserved, room = ledger.reserved.get(resource, 0), ledger.room(resource)
        figures = f"{figure(resource, total)} total"
        if reserved:
            figures += f", {figure(resource, reserved)} reserved"
        figures += f", {figure(resource, held)} allocated, {figure(resource, room)} available"
        yield f"  {resource:<8} {bar(total, reserved, held)}  {figures}"
        if resource in ("cpu", "memory"):
            for holder, amount in _holders(ledger, resource):
                note = "  (no limit: may use more)" if holder in unbounded else ""
                yield f"             {figure(resource, amount):>8}  {holder}{note}"
    for key, devices in told.devices.items():
        driver, pool = key.split("/", 1)
        used = sum(bool(owners) for owners in devices.values())
        yield f"  devices  {driver}, pool {pool}: {used} of {len(devices)} in use"
        width = max(8, *map(len, devices)) if devices else 0
        for device, owners in devices.items():
            yield f"             {device:>{width}}  {', '.join(owners) or 'free'}"


def figure(resource: str, amount: int) -> str:
    """For a table: bytes to a tenth of their largest unit (23.5Gi), everything else as it is."""
    from headrace.api.amounts import CPU, written

    exact = written(resource, amount)
    if resource == CPU or written(resource, 1024) == "1024":
        return exact
    size, unit = float(abs(amount)), ""
    for larger in UNITS:
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{'-' if amount < 0 else ''}{size:.1f}".removesuffix(".0") + unit


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


def enforcement(node: Mapping[str, Any]) -> str:
    """How the node keeps to limits, and why not better, in its own words."""
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(ENFORCEMENT)
    if not text:
        return ""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return ""
    kinds = {str(found.get("cpu")), str(found.get("memory"))}
    return f"limits {' and '.join(sorted(kinds))}: {found.get('detail', '')}".rstrip(": ")
