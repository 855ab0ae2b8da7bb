"""`headrace token create`: what lets one machine join as one node."""

import re

import click

from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.places import kubeconfig_path

UNITS = {"s": 1, "m": 60, "h": 3600}


@click.group()
def token() -> None:
    """Create the tokens with which agents join."""


@token.command()
@click.option("--node", required=True, help="The name that the node will have; the token is good for no other.")
@click.option("--ttl", default="15m", show_default=True, help="How long it is good: 90s, 15m, 2h.")
@targeted
def create(node: str, ttl: str, target: Target) -> None:
    """Print a join token: for one node, for one use. Only its hash is stored."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smh])", ttl)
    if found is None:
        raise click.UsageError(f"--ttl {ttl}: must be a number and s, m or h, such as 15m")
    seconds = int(found[1]) * UNITS[found[2]]
    run(_create(node, float(seconds), target))


async def _create(node: str, seconds: float, target: Target) -> None:
    from headrace.serve.up import join_token

    async with connected(target):
        click.echo(await join_token(kubeconfig_path(target.kubeconfig, target.data_dir), node, seconds))
