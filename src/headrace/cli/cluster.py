"""`controllers`, `manifests`: headrace on a Kubernetes cluster that is there already."""

import asyncio
import os
from pathlib import Path

import click

from headrace.cli.parts import LEVEL, Seconds
from headrace.cli.running import until_stopped, while_running

NAMESPACE = "kube-system"


@click.command()
@click.option("--kubeconfig", help="Default: $KUBECONFIG, or the Pod's account inside a cluster.")
@click.option("--context", default="", help="Context of the kubeconfig; default: its current one.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Where the leader's Lease lies.")
@click.option("--health-address", default="127.0.0.1:0", show_default=True, help="HOST:PORT of /livez, /metrics.")
@click.option("--prometheus", help="URL to ask for usage and policies' queries; default: the cluster's metrics.k8s.io.")
@click.option("--prometheus-ca", help="PEM file of the authority that its certificate is from.")
@click.option("--prometheus-token-file", help="File with a bearer token for it.")
@click.option(
    "--sample-seconds",
    type=Seconds(0.1, 300),
    default=5.0,
    show_default=True,
    help="How often usage is asked for.",
)
@LEVEL
def controllers(
    kubeconfig: str | None,
    context: str,
    lease_namespace: str,
    health_address: str,
    prometheus: str | None,
    prometheus_ca: str | None,
    prometheus_token_file: str | None,
    sample_seconds: float,
    log_level: str,
) -> None:
    """Run the controllers against a Kubernetes cluster; of several such processes one leads.

    kube-scheduler and kubelets decide there: headrace's scheduler, allocator and workload controllers stay off. What
    they need in the cluster is printed by `headrace manifests`. A server of `headrace up` is refused: it has its own.
    """
    from headrace.client.endpoint import endpoint
    from headrace.client.kubeconfig import BadKubeconfig, default_path, in_cluster, load
    from headrace.serve.cluster import ControllersSettings, refuse_home, run_controllers
    from headrace.serve.cluster_jobs import cluster_jobs
    from headrace.serve.logging import log_to

    host, _, port = health_address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise click.UsageError(f"--health-address {health_address}: must be HOST:PORT")
    if not prometheus and (prometheus_ca or prometheus_token_file):
        raise click.UsageError("--prometheus-ca and --prometheus-token-file go with --prometheus")
    inside = kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ
    try:
        cluster = in_cluster() if inside else load(Path(kubeconfig) if kubeconfig else default_path(), context)
        asked = endpoint(prometheus, prometheus_ca, prometheus_token_file) if prometheus else (None, "")
    except BadKubeconfig as wrong:
        raise click.ClickException(str(wrong)) from None
    settings = ControllersSettings(
        cluster,
        lease_namespace,
        host,
        int(port),
        prometheus=asked[0],
        prometheus_path=asked[1],
        sample_seconds=sample_seconds,
    )

    def ready(health_port: int) -> None:
        click.echo(f"controllers for {cluster.server}, lease {lease_namespace}/headrace-controllers")
        click.echo(f"health: http://{host}:{health_port}/livez")

    async def work(stop: asyncio.Event) -> None:
        await refuse_home(cluster)
        await while_running(run_controllers(settings, log_to(level=log_level), ready, cluster_jobs), stop)

    until_stopped(work)


@click.command()
@click.option("--namespace", "-n", default=NAMESPACE, show_default=True, help="Of the controllers' account and Lease.")
def manifests(namespace: str) -> None:
    """Print what a Kubernetes cluster needs for `controllers`: definitions, an account, what it may do.

    headrace manifests | kubectl apply --server-side -f -
    """
    from headrace.serve.cluster_manifests import as_text, cluster_manifests

    click.echo(as_text(cluster_manifests(namespace)), nl=False)
