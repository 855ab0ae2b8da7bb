"""`server`, `agent`, `driver`: the parts of headrace, each as a process of its own."""

import asyncio
import math
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from headrace.cli.places import CONVENTIONAL_PORT, DATA_DIR_HELP, data_directory
from headrace.cli.running import this_node, until_stopped, while_running

AGENTS_PORT = 7444
PORT = click.IntRange(0, 65535)
PROFILES = ("plain", "topology", "partitions")  # of simulated devices
LEVEL = click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
RUNTIME = click.option(
    "--runtime",
    type=click.Choice(["process", "podman"]),
    help="What runs Pods: processes of this machine, or containers of images; default: podman when its socket answers.",
)
PODMAN_SOCKET = click.option(
    "--podman-socket", help="Where Podman's service listens; default: $CONTAINER_HOST or /run."
)


def _api_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Where an API is served: always over TLS, and with nothing after its port. Raises UsageError."""
    if value is None:
        return None
    given = value.rstrip("/")
    try:
        found = urlsplit(given)
        bare = found.scheme == "https" and found.hostname and given == f"https://{found.netloc}" and found.port != 0
    except ValueError:  # a port that is no number, half a bracket
        bare = False
    if not bare:
        raise click.UsageError(f"--server {value}: must be the URL of the API, such as https://10.0.0.5:7443")
    return given


class Seconds(click.FloatRange):
    """A range that NaN, which no comparison catches, is outside of too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found


SYNC_SECONDS = click.option(
    "--sync-seconds",
    type=Seconds(1, 3600),
    default=30.0,
    show_default=True,
    help="How often limits are compared with what is in force.",
)
SAMPLE_SECONDS = click.option(
    "--sample-seconds",
    type=Seconds(0.1, 60),
    default=1.0,
    show_default=True,
    help="How often usage is measured.",
)


@click.command()
@click.option("--data-dir", help=DATA_DIR_HELP)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: all.")
@click.option("--port", type=PORT, default=CONVENTIONAL_PORT, show_default=True, help="Of the API; 0 takes a free one.")
@click.option("--agents-port", type=PORT, default=AGENTS_PORT, show_default=True, help="Of the agents' streams (gRPC).")
@click.option("--controllers/--no-controllers", default=True, show_default=True)
@click.option("--agents/--no-agents", default=True, show_default=True, help="Whether node agents may connect.")
@LEVEL
def server(
    data_dir: str | None, host: str, port: int, agents_port: int, controllers: bool, agents: bool, log_level: str
) -> None:
    """Run the API server and the controllers alone; agents join with a token."""
    from headrace.serve.home import Home, HomeSettings
    from headrace.serve.logging import log_to
    from headrace.serve.up import run_home

    settings = HomeSettings(data_directory(data_dir), host, port, agents_port, controllers, agents)

    def ready(running: Home) -> None:
        told = f"agents on port {running.agents_port}" if agents else "no agents"
        click.echo(f"headrace serves {running.running.url}, {told}")
        click.echo(f"kubeconfig: {running.running.kubeconfig}")

    until_stopped(lambda stop: run_home(settings, log_to(level=log_level), stop, ready), serves=True)


@click.command()
@click.option("--server", "url", callback=_api_url, required=True, help="URL of the API: https://HOST:7443")
@click.option("--agents-server", help="HOST:PORT of the agents' streams; default: the API's host and port 7444.")
@click.option("--join", "token", envvar="HEADRACE_JOIN_TOKEN", default="", help="Join token, needed the first time.")
@click.option("--node-name", help="Default: the host name.")
@click.option("--data-dir", help="Where the agent keeps its state; default: agent/ in that of `headrace up`.")
@click.option("--system-reserved", default="cpu=100m,memory=256Mi", show_default=True, help="Kept from Pods.")
@click.option("--cpus", type=int, help="How many CPUs of this machine headrace may hand out; default: all.")
@click.option("--memory", help="How much memory of this machine headrace may hand out (such as 8Gi); default: all.")
@SYNC_SECONDS
@SAMPLE_SECONDS
@click.option(
    "--abandon-devices-after",
    "abandon_seconds",
    type=Seconds(min=0),
    default=600.0,
    show_default=True,
    help="Seconds that an ending Pod waits for a device driver that is gone.",
)
@RUNTIME
@PODMAN_SOCKET
@LEVEL
def agent(
    url: str,
    agents_server: str | None,
    token: str,
    node_name: str | None,
    data_dir: str | None,
    system_reserved: str,
    cpus: int | None,
    memory: str | None,
    sync_seconds: float,
    sample_seconds: float,
    abandon_seconds: float,
    runtime: str | None,
    podman_socket: str | None,
    log_level: str,
) -> None:
    """Run a node agent: it joins a server, registers this machine and runs the Pods bound to it."""
    from headrace.serve.foresight import refusal
    from headrace.serve.logging import log_to
    from headrace.serve.machine import AgentSettings, run_agent

    name, directory = this_node(node_name), _agent_directory(data_dir)
    if told := refusal(directory, name, runtime, Path(podman_socket) if podman_socket else None):
        raise click.UsageError(told)
    settings = AgentSettings(
        data_dir=directory,
        node=name,
        url=url,
        agents=agents_server or _agents_of(url),
        token=token,
        reserved=reserved_amounts(system_reserved),
        cpus=cpus,
        memory_bytes=memory_bytes(memory),
        abandon_seconds=abandon_seconds,
        sample_seconds=sample_seconds,
        sync_seconds=sync_seconds,
        runtime=runtime or "",
        podman_socket=Path(podman_socket) if podman_socket else None,
    )

    async def work(stop: asyncio.Event) -> None:
        log = log_to(level=log_level)
        await while_running(run_agent(settings, log, lambda: click.echo(f"node {name} is ready")), stop)

    until_stopped(work)


@click.command()
@click.argument("name")
@click.option(
    "--server", "url", callback=_api_url, help="URL of the API: https://HOST:7443; the driver runs beside our agent."
)
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="Of a cluster; the driver runs beside a kubelet.")
@click.option("--node-name", help="Default: the host name.")
@click.option("--data-dir", help="Of the agent beside which it runs; default: the one of `headrace up`.")
@click.option(
    "--kubelet-dir",
    type=click.Path(path_type=Path),
    default="/var/lib/kubelet",
    show_default=True,
    help="A kubelet's.",
)
@click.option(
    "--cdi-dir",
    type=click.Path(path_type=Path),
    default="/var/run/cdi",
    show_default=True,
    help="Where the container runtime beside a kubelet looks for CDI documents.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default=PROFILES[0],
    show_default=True,
    help="Which GPUs gpu.example.com simulates: two, four under two PCIe roots, or two that can be parted.",
)
@LEVEL
def driver(
    name: str,
    url: str | None,
    kubeconfig: Path | None,
    node_name: str | None,
    data_dir: str | None,
    kubelet_dir: Path,
    cdi_dir: Path,
    profile: str,
    log_level: str,
) -> None:
    """Run a device driver that ships with headrace, beside our agent or a kubelet.

    gpu.example.com and nic.example.com are simulated; host.headrace.dev hands out what this machine has.
    """
    from headrace.client.kubeconfig import BadKubeconfig
    from headrace.serve.drivers import beside_agent, beside_kubelet, run_driver
    from headrace.serve.foresight import agent_refusal, driver_refusal
    from headrace.serve.logging import log_to

    node = this_node(node_name)
    if (url is None) == (kubeconfig is None):
        raise click.UsageError("give --server (beside our agent) or --kubeconfig (beside a kubelet), one of them")
    place = (_agent_directory(data_dir), "--data-dir") if kubeconfig is None else (kubelet_dir, "--kubelet-dir")
    told = driver_refusal(place[0], name, place[1])
    if told := told or (agent_refusal(place[0], node) if kubeconfig is None else ""):
        raise click.UsageError(told)
    if kubeconfig is not None:
        try:
            settings = beside_kubelet(name, node, kubeconfig, kubelet_dir, cdi_dir, profile)
        except BadKubeconfig as wrong:
            raise click.ClickException(str(wrong)) from None
    else:
        assert url is not None
        settings = beside_agent(name, node, place[0], url, profile)

    async def work(stop: asyncio.Event) -> None:
        running = run_driver(settings, log_to(level=log_level), lambda: click.echo(f"driver {name} is ready"))
        await while_running(running, stop)

    until_stopped(work)


def _agent_directory(given: str | None) -> Path:
    return Path(given).absolute() if given else data_directory() / "agent"


def _agents_of(url: str) -> str:
    found = urlsplit(url)
    host = found.netloc if found.port is None else found.netloc.rpartition(":")[0]
    return f"{host}:{AGENTS_PORT}"


def memory_bytes(text: str | None) -> int | None:
    """Raises UsageError."""
    if text is None:
        return None
    from headrace.api.quantity import InvalidQuantity, parse

    try:
        return parse(text).value()
    except InvalidQuantity as wrong:
        raise click.UsageError(f"--memory {text}: must be an amount such as 8Gi: {wrong}") from None


def reserved_amounts(text: str) -> dict[str, str]:
    """`cpu=100m,memory=256Mi` as a mapping. Raises UsageError naming what is wrong."""
    from headrace.api.quantity import InvalidQuantity, parse

    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        if name not in ("cpu", "memory"):
            raise click.UsageError(f"--system-reserved {part}: must be cpu=AMOUNT or memory=AMOUNT")
        try:
            if parse(amount).nano < 0:
                raise click.UsageError(f"--system-reserved {part}: must not be negative")
        except InvalidQuantity as wrong:
            raise click.UsageError(f"--system-reserved {part}: {wrong}") from None
        found[name] = amount
    return found
