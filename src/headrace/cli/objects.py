"""`apply`, `get` and `delete` for those without kubectl: the same words, the same tables."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import click

from headrace.cli.connection import SILENT_SECONDS, Target, connected, run, targeted
from headrace.cli.discovery import Known, by_manifest, by_word, kinds
from headrace.cli.manifests import LAST_APPLIED, read, three_way

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
DEVICES_RELEASED = "headrace.dev/DevicesReleased"  # what a Pod that ends waits for when a device driver is away
WRITING = {"fieldManager": "headrace-cli", "fieldValidation": "Strict"}


@click.command()
@click.option("-f", "--filename", "files", multiple=True, required=True, help="File, folder or - ; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Have the server check everything and keep nothing.")
@targeted
def apply(files: tuple[str, ...], dry_run: bool, target: Target) -> None:
    """Create or update objects from manifests."""
    run(_apply(list(read(files)), dry_run, target))


async def _apply(objects: list[dict[str, Any]], dry_run: bool, target: Target) -> None:
    from headrace.client.errors import ApiError
    from headrace.client.http import MERGE_PATCH
    from headrace.client.paths import collection_path, object_path

    if not objects:
        raise click.UsageError("-f: there is no object in it")
    query = WRITING | ({"dryRun": "All"} if dry_run else {})
    async with connected(target) as (client, namespace):
        known: list[Known] = []
        for wanted in objects:
            kind = await _kind_of(client, known, wanted)
            meta = wanted["metadata"]
            place = meta.get("namespace") or namespace if kind.namespaced else ""
            if place:
                meta["namespace"] = place  # as kubectl writes it: what was applied then and is left out now would go
            plain = json.dumps(wanted, separators=(",", ":"), sort_keys=True) + "\n"
            if not meta.get("name"):
                raise click.ClickException(f"{kind.kind}: metadata.name is required")
            path = object_path(kind, place, meta["name"])
            wanted["metadata"] = {**meta, "annotations": {**(meta.get("annotations") or {}), LAST_APPLIED: plain}}
            try:
                now = await client.request("GET", path)
            except ApiError as refused:
                if refused.code != 404:
                    raise
                await client.request("POST", collection_path(kind, place), query=query, body=wanted)
                told = "created"
            else:
                last = ((now.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
                patch = three_way(json.loads(last) if last else {}, now, wanted)
                only_note = patch == {"metadata": {"annotations": {LAST_APPLIED: plain}}}
                if patch:
                    await client.request("PATCH", path, query=query, body=patch, content_type=MERGE_PATCH)
                told = "configured" if patch and not (only_note and last is not None) else "unchanged"
            click.echo(f"{_shown(kind)}/{meta['name']} {told}{' (dry run)' if dry_run else ''}")


async def _kind_of(client: Any, known: list[Known], wanted: dict[str, Any]) -> Any:
    """Looked up again once when it is missing: the CustomResourceDefinition may have come just before."""
    for asked_again in (False, True):
        if not known or asked_again:
            known[:] = await kinds(client)
        try:
            return by_manifest(known, wanted["apiVersion"], wanted["kind"])
        except click.ClickException:
            if asked_again:
                raise
    raise AssertionError("unreachable")


def _shown(kind: Any) -> str:
    return f"{kind.kind.lower()}.{kind.group}" if kind.group else kind.kind.lower()


@click.command()
@click.argument("what")
@click.argument("names", nargs=-1)
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("-l", "--selector", default="", help="Label selector.")
@click.option("--field-selector", default="", help="Field selector.")
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json", "yaml", "name"]), default="table")
@click.option("--show-managed-fields", "managed", is_flag=True, help="Also who has written which fields.")
@targeted
def get(
    what: str,
    names: tuple[str, ...],
    all_namespaces: bool,
    selector: str,
    field_selector: str,
    output: str,
    managed: bool,
    target: Target,
) -> None:
    """Show objects: `get pods`, `get pod/web`, `get resourceclaims -o yaml`."""
    selection = {"labelSelector": selector, "fieldSelector": field_selector}
    run(_get(what, names, all_namespaces, selection, output, managed, target))


async def _get(
    what: str,
    names: tuple[str, ...],
    everywhere: bool,
    selection: dict[str, str],
    output: str,
    managed: bool,
    target: Target,
) -> None:
    from headrace.client.paths import collection_path, object_path

    word, _, name = what.partition("/")
    names = (*((name,) if name else ()), *names)
    query = {key: value for key, value in selection.items() if value}
    accept = TABLE if output in ("table", "wide") else "application/json"
    async with connected(target) as (client, namespace):
        kind = by_word(await kinds(client), word)
        place = "" if everywhere or not kind.namespaced else namespace
        if names:
            answers = [await client.request("GET", object_path(kind, place, each), accept=accept) for each in names]
        else:
            answers = [await client.request("GET", collection_path(kind, place), query=query, accept=accept)]
    if output in ("table", "wide"):
        _print_tables(answers, wide=output == "wide", with_namespace=everywhere and kind.namespaced, place=place)
        return
    if output == "name":
        for each in _items(answers):
            click.echo(f"{_shown(kind)}/{each['metadata']['name']}")
        return
    for each in _items(answers):
        if not managed:  # as with kubectl: they are most of the text, and of use to few
            each["metadata"].pop("managedFields", None)
    document = answers[0] if len(answers) == 1 else {"apiVersion": "v1", "kind": "List", "items": answers}
    if output == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def _items(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for answer in answers for each in answer.get("items", [answer])]


def _print_tables(tables: list[dict[str, Any]], *, wide: bool, with_namespace: bool, place: str) -> None:
    defined = tables[0]["columnDefinitions"]
    shown = [index for index, column in enumerate(defined) if wide or not column.get("priority")]
    head = [defined[index]["name"].upper() for index in shown]
    rows = []
    for table in tables:
        for row in table.get("rows") or ():
            cells = [_cell(row["cells"][index]) for index in shown]
            rows.append([row["object"]["metadata"].get("namespace", ""), *cells] if with_namespace else cells)
    if not rows:
        click.echo(f"No resources found in {place} namespace." if place else "No resources found", err=True)
        return
    for line in columns(["NAMESPACE", *head] if with_namespace else head, rows):
        click.echo(line)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "<none>" if value is None else str(value)


def columns(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Columns three spaces apart, as kubectl prints them."""
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    for row in (head, *rows):
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


@click.command()
@click.argument("what", required=False)
@click.argument("names", nargs=-1)
@click.option("-f", "--filename", "files", multiple=True, help="Delete what these manifests describe.")
@click.option("--grace-period", type=int, help="Seconds that Pods get to end; 0 with --force ends them at once.")
@click.option("--force", is_flag=True, help="With --grace-period 0: do not wait for the node.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when the objects are gone.")
@targeted
def delete(
    what: str | None,
    names: tuple[str, ...],
    files: tuple[str, ...],
    grace_period: int | None,
    force: bool,
    wait: bool,
    target: Target,
) -> None:
    """Delete objects: `delete pod web`, `delete -f pod.yaml`."""
    if bool(what) == bool(files):
        raise click.UsageError("name objects (`delete pod web`) or give manifests (-f), one of both")
    if grace_period == 0 and not force:
        raise click.UsageError("--grace-period 0 leaves processes behind that nobody waits for: add --force if meant")
    body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    if grace_period is not None:
        body["gracePeriodSeconds"] = grace_period
    run(_delete(what or "", names, list(read(files)), body, wait, target))


async def _delete(
    what: str, names: tuple[str, ...], manifests: list[dict[str, Any]], body: dict[str, Any], wait: bool, target: Target
) -> None:
    from headrace.client.errors import ApiError
    from headrace.client.paths import object_path

    missing: list[str] = []
    async with connected(target) as (client, namespace):
        known = await kinds(client)
        doomed = []
        for wanted in reversed(manifests):
            kind = by_manifest(known, wanted["apiVersion"], wanted["kind"])
            doomed.append((kind, wanted["metadata"].get("namespace") or namespace, wanted["metadata"].get("name", "")))
        if what:
            word, _, name = what.partition("/")
            kind = by_word(known, word)
            named = (*((name,) if name else ()), *names)
            if not named:
                raise click.UsageError(f"which {kind.plural}? name at least one")
            doomed += [(kind, namespace, each) for each in named]
        for kind, place, name in doomed:
            path = object_path(kind, place if kind.namespaced else "", name)
            try:
                gone = await client.request("DELETE", path, body=body)
            except ApiError as refused:
                if refused.code != 404:
                    raise
                missing.append(refused.message)
                continue
            click.echo(f'{_shown(kind)} "{name}" deleted')
            if wait:
                told = asyncio.create_task(tell_what_keeps(client, path))
                try:
                    await _until_gone(client, path, (gone.get("metadata") or gone.get("details") or {}).get("uid"))
                finally:
                    told.cancel()
    if missing:
        raise click.ClickException("; ".join(missing))


async def tell_what_keeps(client: Any, path: str, seconds: float = SILENT_SECONDS) -> None:
    """Looks every so often at what is being deleted, and says what it waits for whenever that is something else."""
    from headrace.client.errors import ApiError, Unreachable

    told = ""
    while True:
        await asyncio.sleep(seconds)
        try:
            now = await client.request("GET", path)
        except (ApiError, Unreachable):
            return  # gone, or told by who waits for it
        if (kept := what_keeps(now)) != told:
            told = kept
            click.echo(f"waiting: {told}", err=True)


def what_keeps(obj: dict[str, Any]) -> str:
    """What an object that was deleted is still there for."""
    spec, conditions = obj.get("spec") or {}, (obj.get("status") or {}).get("conditions") or ()
    for each in conditions:
        if each["type"] == DEVICES_RELEASED and each["status"] == "False":
            return str(each.get("message"))
    if finalizers := obj["metadata"].get("finalizers"):
        return f"finalizers are there: {', '.join(finalizers)}"
    if obj.get("kind") == "Pod" and spec.get("nodeName"):
        grace = obj["metadata"].get("deletionGracePeriodSeconds", 0)
        return f"node {spec['nodeName']} ends its containers, which have {grace} s for it"
    return "it is being deleted"


async def _until_gone(client: Any, path: str, uid: str | None) -> None:
    """Follow the object's own watch until it is deleted, or another stands under its name."""
    from headrace.client.errors import ApiError

    collection, _, name = path.rpartition("/")
    while True:
        try:
            now = await client.request("GET", path)
        except ApiError as refused:
            if refused.code == 404:
                return
            raise
        if uid and now["metadata"]["uid"] != uid:
            return
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": now["metadata"]["resourceVersion"],
        }
        async for event in client.documents(collection, query=query):
            if event["type"] in ("DELETED", "ERROR"):
                break
