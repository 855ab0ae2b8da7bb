"""`headrace logs`: a container's output, from the node that runs it."""

import sys

import click

from headrace.cli.connection import Target, connected, run, targeted


@click.command()
@click.argument("pod")
@click.option("-c", "--container", default="", help="Which container; needed when the Pod has several.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing as it comes.")
@click.option("-p", "--previous", is_flag=True, help="The container's run before this one.")
@click.option("--tail", type=int, help="Only the last lines.")
@click.option("--timestamps", is_flag=True)
@targeted
def logs(
    pod: str, container: str, follow: bool, previous: bool, tail: int | None, timestamps: bool, target: Target
) -> None:
    """Print what a container of POD wrote."""
    asked = {
        "container": container,
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "tailLines": "" if tail is None else str(tail),
        "timestamps": "true" if timestamps else "",
    }
    run(_logs(pod.removeprefix("pod/"), {key: value for key, value in asked.items() if value}, target))


async def _logs(pod: str, query: dict[str, str], target: Target) -> None:
    from headrace.api.kinds import POD
    from headrace.client.paths import object_path

    async with connected(target) as (client, namespace):
        async for piece in client.stream(object_path(POD, namespace, pod, "log"), query=query):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
