"""`headrace resize`: give a running workload other limits and follow what becomes of it; show what was done before."""

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.groups import Named
from headrace.cli.names import missing
from headrace.cli.objects import columns

WAIT_SECONDS = 120.0
HISTORY = ["TIME", "CONTAINER", "FROM", "TO", "CAUSE", "STATE", "SYNC", "MESSAGE"]


@click.group(cls=Named)
def resize() -> None:
    """Change limits of running workloads, and show how that went."""


@resize.command(short_help="Resize a container, and follow that to its end.")
@click.argument("name")
@click.option("--cpu", help="New CPU limit: 2, 500m.")
@click.option("--memory", help="New memory limit: 2Gi.")
@click.option(
    "--on-insufficient",
    type=click.Choice(["Reject", "Defer", "Clamp"]),
    default="Reject",
    show_default=True,
    help="Where the node has no room: fail, wait for it, or take what there is.",
)
@click.option("--priority", default=0, show_default=True, help="Higher ones of a node go first.")
@click.option("--dry-run", is_flag=True, help="Only say whether the node has room for it now.")
@targeted
def workload(
    name: str,
    cpu: str | None,
    memory: str | None,
    on_insufficient: str,
    priority: int,
    dry_run: bool,
    target: Target,
) -> None:
    """Resize a container: NAME is POD, POD/CONTAINER or NAMESPACE/POD/CONTAINER."""
    wanted = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    if not wanted:
        raise click.UsageError("give --cpu, --memory or both")
    options = {"onInsufficient": on_insufficient, "priority": priority}
    run(_resize(name, wanted, options, dry_run, target))


async def _resize(name: str, wanted: dict[str, str], options: dict[str, Any], dry_run: bool, target: Target) -> None:
    from headrace.api.kinds import POD
    from headrace.resize.actions_plan import is_finished
    from headrace.store.kubernetes import KubernetesStore

    async with connected(target) as (client, namespace):
        store = KubernetesStore(client)
        namespace, pod_name, container = named(name, namespace)
        pod = await store.get(POD, pod_name, namespace)
        container = container or _only_container(pod)
        action = _action(pod, container, wanted, options)
        shown = f"{namespace}/{pod_name}/{container}"
        if dry_run:
            await _created(store, action, namespace, shown, dry_run=True)
            click.echo(await _would(client, pod, container, wanted))
            return
        if _has(pod, container, wanted):
            click.echo(f"{shown} has that already: {_words(wanted)}")
            return
        made = await _created(store, action, namespace, shown)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                ended = await _ended(store, made, is_finished)
        except TimeoutError:
            raise click.ClickException(f"{shown}: not done after {WAIT_SECONDS:g} s; it goes on") from None
    status = ended["status"]
    if status["state"] == "Succeeded":
        clamped = f"; clamped to {_words(status['target'])} of {_words(wanted)}" if status.get("target") else ""
        click.echo(f"{shown} resized: {_words(status.get('actual'))} read back{clamped}")
        return
    if status["state"] == "Pending":
        click.echo(f"{shown} deferred: {status['message']}")
        return
    raise click.ClickException(f"{shown} not resized: {status['message']}")


async def _created(store: Any, action: dict[str, Any], namespace: str, shown: str, dry_run: bool = False) -> Any:
    """What is wrong with the options is told of them, not of an object that nobody has heard of."""
    from headrace.api.kinds import RESOURCE_SCALING_ACTION
    from headrace.store.protocol import Invalid

    try:
        return await store.create(RESOURCE_SCALING_ACTION, action, namespace, dry_run=dry_run)
    except Invalid as wrong:
        target, found = "spec.target.", [(each.field or "", each.message) for each in wrong.causes]
        if not found or not all(field.startswith(target) for field, _ in found):
            raise
        told = "; ".join(f"--{field.removeprefix(target)}: {message}" for field, message in found)
        raise click.ClickException(f"{shown} not resized: Resource Validation Failed: {told}") from None


def _action(pod: dict[str, Any], container: str, wanted: dict[str, str], options: dict[str, Any]) -> dict[str, Any]:
    from headrace.api.amounts import quantities
    from headrace.resize import workload as workloads
    from headrace.resize.cluster_pods import of_any_home

    name = pod["metadata"]["name"]
    if workloads.container_of(pod, container) is None:
        there = [each["name"] for field in workloads.FIELDS for each in pod["spec"].get(field) or ()]
        raise click.ClickException(missing(f"Pod {name}: container", container, there))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
    spec = {
        "workload": f"{name}/{container}",
        "node": pod["spec"].get("nodeName", ""),
        "current": quantities(workloads.admitted_limits(of_any_home(pod), container)),
        "target": wanted,
        "cause": {"reason": "Requested", "message": "by headrace resize"},
        **options,
    }
    return {"metadata": {"generateName": f"{name}-{container}-"[:200], "ownerReferences": [owner]}, "spec": spec}


def _has(pod: dict[str, Any], container: str, wanted: dict[str, str]) -> bool:
    """Desired, admitted and read back: an action would change nothing."""
    from headrace.api.amounts import read
    from headrace.api.quantity import InvalidQuantity
    from headrace.resize import workload as workloads
    from headrace.resize.cluster_pods import of_any_home

    try:
        amounts = read(wanted)
    except InvalidQuantity:
        return False  # the server's words are better
    pod = of_any_home(pod)
    states = (workloads.desired_limits, workloads.admitted_limits, workloads.actual_limits)
    return set(amounts) == set(wanted) and all(
        (limits(pod, container) or {}).get(name) == amount for limits in states for name, amount in amounts.items()
    )


async def _would(client: Any, pod: dict[str, Any], container: str, wanted: dict[str, str]) -> str:
    """The guard's own question, asked of its books as last committed."""
    from headrace.api.amounts import MEMORY, PODS, read
    from headrace.cli.capacity import committed
    from headrace.ledger.node import Shortfall
    from headrace.ledger.pods import contribution
    from headrace.resize import workload as workloads

    books = await committed(client)
    node = pod["spec"].get("nodeName", "")
    if books is None or node not in books.nodes:
        raise click.ClickException(f"no ledger of node {node!r} is served there")
    after = workloads.with_resources(pod, container, workloads.resized(pod, container, read(wanted)))
    if workloads.changes_qos(pod, after):
        raise click.ClickException("Resource Validation Failed: it would change the Pod's QoS class")
    wish = contribution(workloads.as_admitted(after, container))
    holds = {each: amount for each, amount in wish.wish(contribution(pod)).items() if each != PODS}
    answer = books.nodes[node].ledger(node).admit(wish.holder, holds)
    if isinstance(answer, Shortfall):
        reason = "InsufficientMemory" if MEMORY in answer.missing else "InsufficientCPU"
        raise click.ClickException(f"{workloads.BEGINNINGS[reason]}: {answer} (dry run)")
    return f"node {node} has room for it (dry run)"


async def _ended(store: Any, action: dict[str, Any], is_finished: Any) -> dict[str, Any]:
    from headrace.api.kinds import RESOURCE_SCALING_ACTION

    meta = action["metadata"]
    version = meta["resourceVersion"]
    while True:
        selected = f"metadata.name={meta['name']}"
        async for event in store.watch(RESOURCE_SCALING_ACTION, meta["namespace"], since=version, fields=selected):
            found: dict[str, Any] = event.object
            version = found["metadata"]["resourceVersion"]
            if event.type == "DELETED":
                raise click.ClickException("the action was deleted before it ended")
            if event.type != "BOOKMARK" and (
                is_finished(found) or (found.get("status") or {}).get("reason") == "Deferred"
            ):
                return found


@resize.command(short_help="Show what was done to a workload, and why.")
@click.argument("name")
@targeted
def history(name: str, target: Target) -> None:
    """What was done to a workload: NAME is POD, POD/CONTAINER or NAMESPACE/POD/CONTAINER."""
    run(_history(name, target))


async def _history(name: str, target: Target) -> None:
    from headrace.api.kinds import POD, RESOURCE_SCALING_ACTION
    from headrace.store.kubernetes import KubernetesStore

    async with connected(target) as (client, namespace):
        store = KubernetesStore(client)
        namespace, pod, container = named(name, namespace)
        found = (await store.list(RESOURCE_SCALING_ACTION, namespace)).items
        if not any(each["spec"]["workload"].startswith(f"{pod}/") for each in found):
            await store.get(POD, pod, namespace)  # what is not there is not "never resized"
    place = f"{pod}/{container}" if container else f"{pod}/"
    mine = [each for each in found if f"{each['spec']['workload']}/".startswith(f"{place.rstrip('/')}/")]
    if not mine:
        click.echo(f"{namespace}/{place.rstrip('/')} was never resized", err=True)
        return
    mine.sort(key=age)
    for line in columns(HISTORY, [_row(each) for each in mine]):
        click.echo(line)


def age(action: Mapping[str, Any]) -> tuple[str, int]:
    """Orders the actions of one workload.

    Of those made in one second the later was written last, because they run one after the other, and versions of
    objects of one kind may be compared (KEP-5504).
    """
    meta = action["metadata"]
    return meta["creationTimestamp"], int(meta["resourceVersion"])


def _row(action: dict[str, Any]) -> list[str]:
    spec, status = action["spec"], action.get("status") or {}
    had = _had(action)
    cause = spec.get("cause") or {}
    return [
        action["metadata"]["creationTimestamp"],
        spec["workload"].partition("/")[2],
        _words({name: had.get(name, "?") for name in spec["target"]}),
        _words(status.get("target") or spec["target"]),
        " ".join(str(cause[each]) for each in ("policy", "reason", "metric") if cause.get(each)),
        status.get("state", "Pending"),
        status.get("syncState", ""),
        status.get("message", ""),
    ]


def _had(action: dict[str, Any]) -> dict[str, str]:
    """What is known of it: where admission is a cluster's, an action may say what cannot be read."""
    from headrace.api.amounts import quantities
    from headrace.api.quantity import InvalidQuantity
    from headrace.resize.actions_plan import had_before

    try:
        return quantities(had_before(action))
    except InvalidQuantity:
        return {}


def named(name: str, namespace: str) -> tuple[str, str, str]:
    """Namespace, Pod and container, which may be empty."""
    parts = name.split("/")
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    if len(parts) > 3 or not all(parts):
        raise click.UsageError(f"{name}: must be POD, POD/CONTAINER or NAMESPACE/POD/CONTAINER")
    return namespace, parts[0], parts[1] if len(parts) == 2 else ""


def _only_container(pod: dict[str, Any]) -> str:
    names = [str(each["name"]) for each in pod["spec"]["containers"]]
    if len(names) != 1:
        name = pod["metadata"]["name"]
        raise click.UsageError(f"Pod {name} has containers {', '.join(names)}: say which, as {name}/{names[0]}")
    return names[0]


def _words(amounts: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (amounts or {}).items())
