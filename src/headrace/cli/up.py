"""`up`, `down` and `status`: all of headrace on this machine."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from headrace.cli.parts import (
    AGENTS_PORT,
    LEVEL,
    PODMAN_SOCKET,
    PORT,
    RUNTIME,
    SAMPLE_SECONDS,
    SYNC_SECONDS,
    memory_bytes,
    reserved_amounts,
)
from headrace.cli.places import CONVENTIONAL_PORT, DATA_DIR_HELP, data_directory
from headrace.cli.running import this_node, until_stopped

READY_SECONDS = 60.0
STOP_SECONDS = 40.0
LOOK_SECONDS = 0.05
SILENT_SECONDS = 3.0  # after which a person is told what is waited for
GPU, NIC, HOST = "gpu.example.com", "nic.example.com", "host.headrace.dev"
SIMULATED = {
    "plain": ((GPU,),),
    "topology": ((GPU, "--profile", "topology"), (NIC,)),
    "partitions": ((GPU, "--profile", "partitions"),),
}


@click.command()
@click.option("--data-dir", help=DATA_DIR_HELP)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: all.")
@click.option("--port", type=PORT, default=CONVENTIONAL_PORT, show_default=True, help="Of the API; 0 takes a free one.")
@click.option("--agents-port", type=PORT, default=AGENTS_PORT, show_default=True, help="Of the agents' streams (gRPC).")
@click.option("--node-name", help="Default: the host name.")
@click.option("--agent/--no-agent", "with_agent", default=True, show_default=True, help="Run Pods on this machine.")
@click.option(
    "--simulated-devices",
    is_flag=False,
    flag_value="plain",
    type=click.Choice(list(SIMULATED)),
    help="Also run simulated drivers: plain (also without a value) has two GPUs, topology has four GPUs and two NICs "
    "under two PCIe roots, partitions has GPUs that can be parted.",
)
@click.option("--host-devices", is_flag=True, help="Also run host.headrace.dev, which hands out what this machine has.")
@click.option("--system-reserved", default="cpu=100m,memory=256Mi", show_default=True, help="Kept from Pods.")
@click.option("--cpus", type=int, help="How many CPUs of this machine headrace may hand out; default: all.")
@click.option("--memory", help="How much memory of this machine headrace may hand out (such as 8Gi); default: all.")
@SYNC_SECONDS
@SAMPLE_SECONDS
@click.option("--detach", is_flag=True, help="Return when it is ready; `headrace down` ends it.")
@RUNTIME
@PODMAN_SOCKET
@LEVEL
def up(
    data_dir: str | None,
    host: str,
    port: int,
    agents_port: int,
    node_name: str | None,
    with_agent: bool,
    simulated_devices: str | None,
    host_devices: bool,
    system_reserved: str,
    cpus: int | None,
    memory: str | None,
    sync_seconds: float,
    sample_seconds: float,
    detach: bool,
    runtime: str | None,
    podman_socket: str | None,
    log_level: str,
) -> None:
    """Run everything on this machine: API server, controllers, node agent."""
    directory = data_directory(data_dir)
    node = this_node(node_name)
    drivers = {each[0] for each in SIMULATED[simulated_devices]} if simulated_devices else set()
    drivers |= {HOST} if host_devices else set()
    if with_agent:
        _check_share(cpus, memory, system_reserved)
        _check_agent(directory / "agent", node, runtime, podman_socket, drivers)
    if detach:
        _detached(directory, node if with_agent else None, drivers)
        return
    from headrace.serve.home import Home, HomeSettings
    from headrace.serve.logging import log_to
    from headrace.serve.up import UpSettings, run_up

    handed_on = {
        "--system-reserved": system_reserved,
        "--cpus": cpus,
        "--memory": memory,
        "--sync-seconds": sync_seconds,
        "--sample-seconds": sample_seconds,
        "--log-level": log_level,
        "--runtime": runtime,
        "--podman-socket": podman_socket,
    }
    settings = UpSettings(
        HomeSettings(directory, host, port, agents_port),
        node=node,
        agent=tuple(str(part) for name, value in handed_on.items() if value is not None for part in (name, value)),
        drivers=(*(SIMULATED[simulated_devices] if simulated_devices else ()), *(((HOST,),) if host_devices else ())),
        with_agent=with_agent,
    )

    def ready(home: Home) -> None:
        click.echo(f"headrace serves {home.running.url}")
        click.echo(f"kubeconfig: {home.running.kubeconfig}")
        click.echo(f"try: kubectl --kubeconfig {home.running.kubeconfig} get nodes")

    until_stopped(lambda stop: run_up(settings, log_to(level=log_level), stop, ready), serves=True)


def _check_share(cpus: int | None, memory: str | None, system_reserved: str) -> None:
    """What the agent would refuse, said before a server starts for nothing. Raises UsageError."""
    from headrace.serve.share import share_of_this_machine

    amounts = memory_bytes(memory), reserved_amounts(system_reserved)
    try:
        share_of_this_machine(cpus, *amounts)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


def _check_agent(directory: Path, node: str, runtime: str | None, podman_socket: str | None, drivers: set[str]) -> None:
    """Likewise of its directory and its runtime, without which no node or device would be ready. Raises UsageError."""
    from headrace.serve.foresight import refusal

    if told := refusal(directory, node, runtime, Path(podman_socket) if podman_socket else None, drivers):
        raise click.UsageError(told)


def _detached(directory: Path, node: str | None, drivers: set[str]) -> None:
    """Start the same command in a session of its own; wait until it serves and its node is ready, with its devices."""
    from headrace.serve.announcement import announced

    if (running := announced(directory)) is not None:
        raise click.ClickException(f"headrace runs already in {directory} (pid {running.pid}): `headrace down` ends it")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    log, began = directory / "headrace.log", time.time()
    with log.open("ab") as output:
        start = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli", *(each for each in sys.argv[1:] if each != "--detach")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + READY_SECONDS
    waiting = _teller(log, start)
    while (running := announced(directory)) is None or running.pid != process.pid:
        if process.poll() is not None:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            told = last[0].removeprefix("Error: ") if last else f"exit code {process.returncode}"
            raise click.ClickException(f"it did not start: {told}")
        if time.monotonic() > deadline:
            raise click.ClickException(f"not ready after {READY_SECONDS:.0f} s; see {log}")
        waiting("the server starts")
        time.sleep(LOOK_SECONDS)
    click.echo(f"headrace serves {running.url} (pid {running.pid}, log {log})")
    click.echo(f"kubeconfig: {running.kubeconfig}")
    if node is not None:
        try:
            _wait_for_node(str(running.kubeconfig), node, began, deadline, log, waiting)
            _wait_for_devices(str(running.kubeconfig), node, drivers, deadline, log, waiting)
        except click.ClickException as failed:
            raise click.ClickException(failed.message + _last_error(log, start)) from None
        click.echo(f"node {node} is ready")


def _teller(log: Path, start: int) -> Callable[[str], None]:
    """Says what is waited for, with what a part of this run has ended with: when it has lasted, each text once."""
    silent, told = time.monotonic() + SILENT_SECONDS, set[str]()

    def waiting(why: str) -> None:
        if time.monotonic() < silent:
            return
        why += _last_error(log, start)
        if why not in told:
            told.add(why)
            click.echo(f"waiting: {why}", err=True)

    return waiting


def _last_error(log: Path, start: int) -> str:
    """What a part of this run has ended with, where one did."""
    lines = log.read_bytes()[start:].decode(errors="replace").splitlines()
    errors = [each.removeprefix("Error: ") for each in lines if each.startswith("Error: ")]
    return f": {errors[-1]}" if errors else ""


def _wait_for_node(
    kubeconfig: str, node: str, began: float, deadline: float, log: Path, waiting: Callable[[str], None]
) -> None:
    """Ready, and said so since `began`: a Node of an earlier run says that it is ready for a while."""
    from headrace.api.kinds import LEASE, NODE

    nodes: dict[str, str] = {}
    renewed = 0.0
    while nodes.get(node) != "Ready" or renewed < began:
        told = nodes.get(node, "it has not registered")
        told = "its agent has not reported" if told == "Ready" else told
        if time.monotonic() > deadline:
            raise click.ClickException(f"node {node}: {told} after {READY_SECONDS:.0f} s; see {log}")
        waiting(f"node {node}: {told}")
        time.sleep(LOOK_SECONDS)
        nodes = _readiness(_items(kubeconfig, NODE))
        renewed = _renewed(_items(kubeconfig, LEASE, "kube-node-lease"), node)


def _wait_for_devices(
    kubeconfig: str, node: str, drivers: set[str], deadline: float, log: Path, waiting: Callable[[str], None]
) -> None:
    """Until the drivers have published, if only that they have none: a Pod that comes sooner would be told so."""
    from headrace.api.kinds import RESOURCE_SLICE

    missing = drivers
    while missing:
        told = f"node {node}: no devices of {', '.join(sorted(missing))}"
        if time.monotonic() > deadline:
            raise click.ClickException(f"{told} after {READY_SECONDS:.0f} s; see {log}")
        waiting(told)
        time.sleep(LOOK_SECONDS)
        specs = [each["spec"] for each in _items(kubeconfig, RESOURCE_SLICE)]
        missing = drivers - {each["driver"] for each in specs if each.get("nodeName") == node}


def _items(kubeconfig: str, kind: Any, namespace: str = "") -> list[dict[str, Any]]:
    """All objects of a kind that the server has now."""
    import asyncio

    from headrace.cli.connection import Target, connected
    from headrace.store.kubernetes import KubernetesStore

    async def listed() -> list[dict[str, Any]]:
        async with connected(Target(kubeconfig, None, None)) as (client, _):
            return list((await KubernetesStore(client).list(kind, namespace)).items)

    return asyncio.run(listed())


def _renewed(leases: list[dict[str, Any]], node: str) -> float:
    """When the node's agent last told that it lives: wall seconds, 0 if never."""
    from headrace.api.times import from_time

    times = [from_time(each["spec"]["renewTime"]) for each in leases if each["metadata"]["name"] == node]
    return max(times, default=0.0)


@click.command()
@click.option("--data-dir", help=DATA_DIR_HELP)
@click.option("--keep-containers", is_flag=True, help="Let containers run on; the next `up` finds them again.")
@click.option("--grace-period", default=10.0, show_default=True, help="Seconds that containers get to end.")
def down(data_dir: str | None, keep_containers: bool, grace_period: float) -> None:
    """Stop what `up`, or `agent` with a --data-dir of its own, started here. Objects stay: the next one goes on."""
    import asyncio

    from headrace.serve.announcement import announced, is_alive
    from headrace.serve.machine import CannotEnd, end_containers, has_run
    from headrace.serve.sole import agent_in, copy_refusal

    directory = data_directory(data_dir)
    running = announced(directory)
    if running is not None:
        os.kill(running.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while announced(directory) is not None or is_alive(running.pid):
            if time.monotonic() > deadline:
                raise click.ClickException(_stuck(running.pid, "it"))
            time.sleep(LOOK_SECONDS)
    agents, ended = 0, 0
    for place in (directory / "agent", directory):
        if (pid := agent_in(place)) is not None:
            agents += 1
            _end_agent(place, pid)
        if not keep_containers and has_run(place):
            if told := copy_refusal(place):
                raise click.ClickException(told)
            try:
                ended += asyncio.run(end_containers(place, grace_period))
            except CannotEnd as why:
                raise click.ClickException(
                    f"headrace is down, but its containers were not ended, and may run: {why}; "
                    "`headrace down` again when that is mended"
                ) from None
    if running is None and not ended and not agents:
        click.echo(f"headrace does not run in {directory}")
        return
    count = "1 container" if ended == 1 else f"{ended} containers"
    told = "containers run on" if keep_containers else f"{count} ended"
    click.echo(f"headrace is down; {told}")


def _stuck(pid: int, what: str) -> str:
    return f"{what} did not end in {STOP_SECONDS:.0f} s: `kill -9 {pid}` ends it, nothing that was acknowledged is lost"


def _end_agent(place: Path, pid: int) -> None:
    """One that was started by itself: it would start again what is ended."""
    from headrace.serve.sole import agent_in

    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while agent_in(place) == pid:
        if time.monotonic() > deadline:
            raise click.ClickException(_stuck(pid, "the agent"))
        time.sleep(LOOK_SECONDS)


@click.command()
@click.option("--data-dir", help=DATA_DIR_HELP)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
def status(data_dir: str | None, output: str) -> None:
    """Show whether headrace runs here, what it serves and which nodes it has. Exit code 1 when it does not run."""
    from headrace.api.kinds import NODE
    from headrace.serve.announcement import announced
    from headrace.serve.sole import lone_agent

    directory = data_directory(data_dir)
    running = announced(directory)
    if running is None:
        agent = lone_agent(directory)
        if output != "table":
            click.echo(json.dumps({"running": False, "dataDir": str(directory), "agentPid": agent}))
            sys.exit(1 if agent is None else 0)
        if agent is None:
            raise click.ClickException(f"headrace does not run in {directory}; `headrace up` starts it")
        click.echo(f"a node agent runs in {directory} (pid {agent}), whose server is elsewhere")
        return
    found: dict[str, Any] = {
        "running": True,
        "dataDir": str(directory),
        "pid": running.pid,
        "url": running.url,
        "agentsPort": running.agents_port,
        "kubeconfig": str(running.kubeconfig),
        "nodes": _readiness(_items(str(running.kubeconfig), NODE)),
    }
    if output == "json":
        click.echo(json.dumps(found, indent=2))
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(found, sort_keys=False), nl=False)
    else:
        click.echo(f"headrace serves {running.url} (pid {running.pid})")
        click.echo(f"kubeconfig: {running.kubeconfig}")
        for name, ready in found["nodes"].items():
            click.echo(f"node {name}: {ready}")


def _readiness(nodes: list[dict[str, Any]]) -> dict[str, str]:
    """By node: `Ready`, or why not."""
    return {
        node["metadata"]["name"]: next(
            (
                "Ready" if each["status"] == "True" else f"not ready: {each.get('message') or each.get('reason')}"
                for each in (node.get("status") or {}).get("conditions") or ()
                if each["type"] == "Ready"
            ),
            "not ready: it has not reported yet",
        )
        for node in nodes
    }
