"""`headrace doctor`: looks at the server over HTTP and at this machine's data directory, and tells what it found."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import click

from headrace.cli.connection import Target, connected, targeted
from headrace.cli.doctor import findings
from headrace.cli.doctor.findings import Finding, Level
from headrace.cli.places import data_directory, served_directory

LEVELS: tuple[Level, ...] = ("ok", "warn", "fail")
COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}
LEASES = "kube-node-lease"
TRIES = 3


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@targeted
def doctor(output: str, target: Target) -> None:
    """Check that all is well, and say what to do where it is not. Exit code 1 when something fails.

    Looked at: whether the ledger's books say what the objects say, what runs that no object owns (strays), nodes, which
    limits are enforced, clocks; for a server on this machine also its certificates, disk, file and keeper (the process
    that holds containers while the agent restarts).
    """
    found = asyncio.run(_everything(target))
    found.sort(key=lambda each: (-LEVELS.index(each.level), each.check, each.message))
    healthy = all(each.level != "fail" for each in found)
    if output == "json":
        told = [
            {"level": each.level, "check": each.check, "message": each.message, "remedy": each.remedy} for each in found
        ]
        click.echo(json.dumps({"healthy": healthy, "findings": told}, indent=2))
    else:
        for each in found:
            click.echo(f"{click.style(f'{each.level:<4}', fg=COLORS[each.level])}  {each.check:<12}  {each.message}")
            if each.remedy:
                click.echo(f"{'':<20}→ {each.remedy}")
        counts = ", ".join(f"{sum(each.level == level for each in found)} {level}" for level in LEVELS)
        click.echo(f"\n{counts}")
    if not healthy:
        sys.exit(1)


async def _everything(target: Target) -> list[Finding]:
    from headrace.serve.sole import lone_agent

    found = [*_local(target)]
    try:
        async with connected(target) as (client, _):
            found.extend([each async for each in _served(client)])
    except click.ClickException as failed:
        remedy = "Start it: `headrace up`; its log says why it ended"
        if (agent := lone_agent(data_directory(target.data_dir))) is not None and not target.kubeconfig:
            told = f"not looked at: an agent runs here (pid {agent}), whose server is elsewhere"
            return [
                *found,
                Finding("warn", "server", told, "Run `headrace doctor` there, or name its --kubeconfig here"),
            ]
        if failed.message.startswith("Unauthorized"):
            remedy = (
                "Name another --kubeconfig. Who lies in the data directory gets a new one when the server starts again"
            )
        found.append(Finding("fail", "server", failed.message, remedy))
    return found


async def _served(client: Any) -> AsyncIterator[Finding]:
    from headrace.api.kinds import LEASE, NODE
    from headrace.cli.capacity import committed
    from headrace.store.kubernetes import KubernetesStore

    store = KubernetesStore(client)
    asked = time.time()
    served = await committed(client)
    answered = time.time()
    yield Finding("ok", "server", f"{client.cluster.server} answers in {(answered - asked) * 1000:.0f} ms")
    if served is None:
        yield Finding("ok", "books", "kept by the cluster itself")
    else:
        yield findings.own_clock(served.time, asked, answered)
        for each in await _books(client):
            yield each
    for node in (await store.list(NODE)).items:
        for each in findings.node(node):
            yield each
    for lease in (await store.list(LEASE, LEASES)).items:
        clock = findings.node_clock(lease)
        if clock is not None:
            yield clock
    if client.cluster.certificate_pem:
        yield findings.certificate("the kubeconfig's certificate", _ends(client.cluster.certificate_pem), time.time())


async def _books(client: Any) -> list[Finding]:
    """Objects are listed at the very revision of the books. History that is compacted meanwhile means once more."""
    from headrace.api import kinds
    from headrace.api.objects import name_of, namespace_of
    from headrace.cli.capacity import committed
    from headrace.client.errors import ApiError
    from headrace.client.paths import collection_path
    from headrace.ledger.books import GUARDED, Books
    from headrace.ledger.document import document

    guarded = [each for each in vars(kinds).values() if isinstance(each, kinds.Kind) and each.resource in GUARDED]
    found = [Finding("warn", "books", "history was compacted during the look", "Ask again")]
    for _ in range(TRIES):
        served = await committed(client)
        assert served is not None
        at = {"resourceVersion": served.revision, "resourceVersionMatch": "Exact"}
        objects = []
        try:
            for kind in guarded:
                listed = await client.request("GET", collection_path(kind, ""), query=at)
                objects += [((kind.resource, namespace_of(obj), name_of(obj)), obj) for obj in listed["items"]]
        except ApiError as refused:
            if refused.code == 410:
                continue
            raise
        folded = Books.fold(objects)
        nodes = {name: ledger for name, ledger in folded.nodes().items() if name in served.nodes or ledger.total}
        found = list(findings.books(served, document(0, 0.0, nodes, folded.pools().values())))
        break
    return found


def _local(target: Target) -> Iterator[Finding]:
    """Of the server's data directory, where that is on this machine."""
    directory = served_directory(target.kubeconfig, target.data_dir)
    if directory is None:
        return
    from headrace.serve import examination
    from headrace.serve.announcement import announced

    now = time.time()
    for path, ends in examination.certificates(directory):
        yield findings.certificate(_short(path, directory), ends, now)
    room = examination.space(directory)
    yield findings.disk(str(directory), room.free, room.total, writable=os.access(directory, os.W_OK))
    if examination.has_file(directory):
        problem = examination.file_problem(directory)
        if problem is not None:
            yield Finding("fail", "file", problem.message, problem.remedy)
        else:
            yield Finding("ok", "file", "every page, index and checksum of it is right")
    if announced(directory) is None:
        return  # then its keeper may be gone too
    lost = examination.keeper_problem(directory)
    if lost:
        remedy = "The agent starts a new one when it is needed; containers of the old one have ended"
        yield Finding("warn", "keeper", lost, remedy)
    elif lost is not None:
        yield Finding("ok", "keeper", "answers")


def _short(path: Path, directory: Path) -> str:
    return str(path.relative_to(directory))


def _ends(pem: str) -> float:
    from cryptography import x509

    return x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc.timestamp()
