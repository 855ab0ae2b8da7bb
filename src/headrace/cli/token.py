"""`headrace token create` lets one machine join as one node; `headrace token revoke` ends what was given out."""

import re

import click

from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.groups import Named

UNITS = {"s": 1, "m": 60, "h": 3600}


@click.group(cls=Named)
def token() -> None:
    """Create the tokens with which agents join, and end credentials."""


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

    async with connected(target) as (client, _):
        if not client.cluster.ca_pem:
            raise click.ClickException("the kubeconfig names no certificate authority, by which agents know the server")
        click.echo(await join_token(client, node, seconds))


@token.command(short_help="End a token, or all credentials of a user.")
@click.argument("identifier", metavar="TOKEN", required=False)
@click.option("--user", help="End everything this user has: certificates issued until now and all tokens.")
@targeted
def revoke(identifier: str | None, user: str | None, target: Target) -> None:
    """End a token (its text, or the id in it), or all credentials of a user such as system:node:node-a.

    From then on they are refused with 401, and what was open with them is cut. A node comes back when `pki` is removed
    from its agent's data directory and the agent is started with --join and a new token.
    """
    if (identifier is None) == (user is None):
        raise click.UsageError("name either a token or --user")
    run(_revoke(identifier, user, target))


async def _revoke(identifier: str | None, user: str | None, target: Target) -> None:
    from headrace.serve.revocation import end_token, end_user

    async with connected(target) as (client, _):
        if user is not None:
            await end_user(client, user)
            click.echo(f"all credentials of {user} are revoked")
        elif identifier is not None:
            await end_token(client, identifier)
            click.echo("the token is revoked")
