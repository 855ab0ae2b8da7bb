"""`headrace token create` lets a machine join as one node, or a user call the API; `token revoke` ends that."""

import re

import click

from headrace.api.roles import USER_ROLES, UserRole
from headrace.cli.connection import Target, connected, run, targeted
from headrace.cli.groups import Named

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
JOIN_TTL, USER_TTL = "15m", "24h"


@click.group(cls=Named)
def token() -> None:
    """Create tokens with which agents join or people and programs call the API, and end credentials."""


@token.command()
@click.option("--node", help="For a machine: the name that the node will have; the token is good for no other.")
@click.option("--user", help="For a person or a program: the name that the server knows it by.")
@click.option("--role", type=click.Choice(USER_ROLES), help="What the user may do.  [default: viewer]")
@click.option("--ttl", help=f"How long it is good: 90s, 15m, 2h, 30d.  [default: {JOIN_TTL}; {USER_TTL} for a user]")
@targeted
def create(node: str | None, user: str | None, role: UserRole | None, ttl: str | None, target: Target) -> None:
    """Print a token: to join, for one node and one use, or for a user (`kubectl --token`). Only its hash is stored."""
    if (node is None) == (user is None):
        raise click.UsageError("name either --node or --user")
    if node is not None:
        if role is not None:
            raise click.UsageError(f"--role {role}: goes with --user; a node has a role of its own")
        run(_create(node, _seconds(ttl or JOIN_TTL), target))
    elif user is not None:
        if user.startswith("system:"):
            raise click.UsageError(f"--user {user}: names that begin with system: are the server's own")
        run(_create_for_user(user, role or "viewer", _seconds(ttl or USER_TTL), target))


def _seconds(ttl: str) -> float:
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", ttl)
    if found is None:
        raise click.UsageError(f"--ttl {ttl}: must be a number and s, m, h or d, such as 15m")
    return float(int(found[1]) * UNITS[found[2]])


async def _create_for_user(user: str, role: UserRole, seconds: float, target: Target) -> None:
    from headrace.serve.credentials import user_token

    async with connected(target) as (client, _):
        click.echo(await user_token(client, user, role, seconds))


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
    from headrace.serve.credentials import OWN, end_token, end_user

    async with connected(target) as (client, _):
        if user is not None:
            tokens = await end_user(client, user)
            told = f"all credentials of {user} are revoked, among them {tokens} token{'' if tokens == 1 else 's'}"
            # Users are names in credentials: there is no list in which a mistyped one would be missing.
            if user in OWN:
                told += "; headrace gives it a new certificate and kubeconfig when it starts again"
            elif not tokens and not user.startswith("system:"):
                told += "; is the name right?"
            click.echo(told)
        elif identifier is not None:
            await end_token(client, identifier)
            click.echo("the token is revoked")
