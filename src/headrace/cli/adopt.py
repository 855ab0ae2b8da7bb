"""`headrace adopt`: a container that already runs here becomes a Pod, without being touched."""

from pathlib import Path

import click

from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.names import missing
from headrace.cli.parts import PODMAN_SOCKET
from headrace.cli.running import this_node


@click.command()
@click.argument("container")
@click.option("--node-name", help="The agent's node; default: the host name.")
@click.option(
    "--on-delete",
    type=click.Choice(["Release", "Stop"]),
    default="Release",
    show_default=True,
    help="What deleting the Pod does: let the container run on without headrace, or stop it.",
)
@PODMAN_SOCKET
@targeted
def adopt(container: str, node_name: str | None, on_delete: str, podman_socket: str | None, target: Target) -> None:
    """Make a running Podman container of this machine an ordinary Pod: charged, resized and shown like others.

    CONTAINER is its name or id.
    """
    socket = Path(podman_socket) if podman_socket else None
    run(_adopt(container, this_node(node_name), socket, on_delete, target))


async def _adopt(container: str, node: str, socket: Path | None, on_delete: str, target: Target) -> None:
    from headrace.api.kinds import NODE, POD
    from headrace.api.objects import key_of, name_of
    from headrace.serve.adoption import ADOPTED_LABEL, CannotAdopt, is_same, pod_for
    from headrace.store.kubernetes import KubernetesStore

    try:
        pod = await pod_for(container, node, socket, on_delete)
    except CannotAdopt as why:
        raise click.ClickException(str(why)) from None
    async with connected(target) as (client, namespace):
        store = KubernetesStore(client)
        nodes = {name_of(each) for each in (await store.list(NODE)).items}
        if node not in nodes:  # nobody would take it over there
            raise click.ClickException(missing("node", node, nodes))
        for each in (await store.list(POD, labels=ADOPTED_LABEL)).items:
            if is_same(pod, each):
                raise click.ClickException(f"container {container} is adopted already: it is Pod {key_of(each)}")
        made = await store.create(POD, pod, namespace)
        click.echo(f"pod/{made['metadata']['name']} adopted container {container}")
