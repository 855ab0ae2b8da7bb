"""`headrace top`: what workloads use, may use and should have, live on a terminal, once into a pipe."""

import asyncio
import sys
from typing import Any

import click

from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.objects import columns
from headrace.cli.resize import age

HEAD = ["WORKLOAD", "NODE", "CPU", "LIMIT", "MEMORY", "LIMIT", "DESIRED", "SYNC", "LAST ACTION"]
CLEAR = "\x1b[H\x1b[2J"


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True)
@click.option("--every", default=1.0, show_default=True, help="Seconds between two looks, on a terminal.")
@click.option("--once", is_flag=True, help="Print the table once, as into a pipe.")
@targeted
def top(all_namespaces: bool, every: float, once: bool, target: Target) -> None:
    """Usage, limits, desired and sync state of each workload. Ctrl-C ends it."""
    if every < 0.2:
        raise click.UsageError(f"--every {every:g}: must be at least 0.2")
    run(_top(all_namespaces, None if once or not sys.stdout.isatty() else every, target))


async def _top(everywhere: bool, every: float | None, target: Target) -> None:
    async with connected(target) as (client, namespace):
        while True:
            rows, nodes = await _rows(client, "" if everywhere else namespace)
            lines = [*columns(HEAD, rows), *notes(rows, nodes)] if rows else ["no workloads run"]
            if every is None:
                click.echo("\n".join(lines))
                return
            click.echo(CLEAR + "\n".join(lines))
            await asyncio.sleep(every)


async def _rows(client: Any, namespace: str) -> tuple[list[list[str]], dict[str, Any]]:
    """And the nodes by name."""
    from headrace.api.kinds import NODE, POD, RESOURCE_SCALING_ACTION
    from headrace.client.errors import ApiError
    from headrace.metrics.paths import USAGE_PATH
    from headrace.store.kubernetes import KubernetesStore

    store = KubernetesStore(client)
    try:
        usage = await client.request("GET", USAGE_PATH)
    except ApiError:
        usage = await _of_a_cluster(client, namespace)
    nodes = {each["metadata"]["name"]: each for each in (await store.list(NODE)).items}
    latest: dict[str, Any] = {}
    for action in (await store.list(RESOURCE_SCALING_ACTION, namespace)).items:
        key = f"{action['metadata']['namespace']}/{action['spec']['workload']}"
        if key not in latest or age(latest[key]) < age(action):
            latest[key] = action
    rows = [
        row(pod, each["name"], nodes.get(pod["spec"].get("nodeName")), usage, latest)
        for pod in (await store.list(POD, namespace)).items
        for each in _staying(pod)
        if (pod.get("status") or {}).get("phase") == "Running"
    ]
    return rows, nodes


def _staying(pod: Any) -> list[Any]:
    """Its sidecars and its containers, but none that only prepares."""
    initial = pod["spec"].get("initContainers") or ()
    return [*(each for each in initial if each.get("restartPolicy") == "Always"), *pod["spec"]["containers"]]


def notes(rows: list[list[str]], nodes: dict[str, Any]) -> list[str]:
    """Nodes of the table that do not enforce what it calls a limit."""
    from headrace.cli.capacity import enforcement

    told = {name: enforcement(nodes[name]) for name in sorted({each[1] for each in rows}) if name in nodes}
    lacking = {name: words for name, words in told.items() if words.partition(":")[0] not in ("", "limits enforced")}
    return [f"{name}: {words}" for name, words in lacking.items()]


async def _of_a_cluster(client: Any, namespace: str) -> dict[str, Any]:
    """By its metrics API, where it has one: limits and states are there all the same."""
    from headrace.client.errors import ApiError
    from headrace.metrics.pod_metrics import ROOT, rates

    try:
        answer = await client.request("GET", f"{ROOT}/namespaces/{namespace}/pods" if namespace else f"{ROOT}/pods")
    except ApiError:
        return {}
    return {each.workload: {"cpu": round(each.cores * 1000), "memory": each.memory_bytes} for each in rates(answer)}


def row(pod: Any, container: str, node: Any, usage: dict[str, Any], latest: dict[str, Any]) -> list[str]:
    """One line of the table, as texts."""
    from headrace.resize import workload
    from headrace.resize.cluster_pods import of_any_home

    pod = of_any_home(pod)
    id = workload.workload_id(pod, container)
    used, actual = usage.get(id) or {}, workload.actual_limits(pod, container) or {}
    judged = workload.judge(pod, container, node)
    action = latest.get(id)
    last = ""
    if action is not None:
        status = action.get("status") or {}
        target = status.get("target") or action["spec"]["target"]
        last = f"{status.get('state', 'Pending')} {workload.words(_read(target))}"
    return [
        id,
        str(pod["spec"].get("nodeName", "")),
        _share(used.get("cpu"), actual.get("cpu"), "cpu"),
        _text("cpu", actual.get("cpu")),
        _share(used.get("memory"), actual.get("memory"), "memory"),
        _text("memory", actual.get("memory")),
        workload.words(workload.desired_limits(pod, container)),
        judged.sync + (f" ({judged.reason})" if judged.reason else ""),
        last,
    ]


def _read(amounts: Any) -> Any:
    from headrace.api.amounts import read

    return read(amounts)


def _text(resource: str, amount: int | None) -> str:
    from headrace.api.amounts import written

    return "-" if amount is None else written(resource, amount)


def _share(used: int | None, limit: int | None, resource: str) -> str:
    if used is None:
        return "-"
    shown = f"{used}m" if resource == "cpu" else f"{used // 1024 // 1024}Mi"
    return f"{shown} {used * 100 // limit}%" if limit else shown
