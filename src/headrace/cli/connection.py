"""How commands reach a server: a kubeconfig, one client, and errors told in one line."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.cli.places import kubeconfig_path

SILENT_SECONDS = 3.0  # after which a person is told that nothing is heard
CONNECT_SECONDS = 15.0

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Target:
    """Which server, and which namespace unless a manifest says otherwise."""

    kubeconfig: str | None
    data_dir: str | None
    namespace: str | None


def targeted(command: F) -> F:
    """Adds --kubeconfig, --data-dir and -n, handed over as one `target`."""

    def with_target(
        *arguments: Any, kubeconfig: str | None, data_dir: str | None, namespace: str | None, **options: Any
    ) -> Any:
        return command(*arguments, target=Target(kubeconfig, data_dir, namespace), **options)

    update_wrapper(with_target, command)
    for option in (
        click.option("-n", "--namespace", help="Namespace; default: the kubeconfig's."),
        click.option("--data-dir", help="Where `headrace up` keeps its state."),
        click.option("--kubeconfig", help="The server's kubeconfig."),
    ):
        with_target = option(with_target)
    return with_target  # type: ignore[return-value]  # the same command with three more options


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[tuple[Any, str]]:
    """A client and the namespace. Whatever the server or the network answers becomes one line."""
    from headrace.client.errors import ApiError, Unreachable
    from headrace.client.http import Client
    from headrace.client.kubeconfig import BadKubeconfig, load
    from headrace.client.patience import Patience
    from headrace.store.protocol import StoreError

    path = kubeconfig_path(target.kubeconfig, target.data_dir)
    try:
        cluster = load(path)
        patience = Patience(_once(f"{cluster.server} does not answer yet; waiting"), SILENT_SECONDS, CONNECT_SECONDS)
        async with Client(cluster, user_agent="headrace-cli", patience=patience) as client:
            yield client, target.namespace or cluster.namespace
    except BadKubeconfig as wrong:
        raise click.ClickException(str(wrong)) from None
    except ApiError as refused:
        raise _refused(refused.reason or str(refused.code), refused.message, path) from None
    except Unreachable as failed:
        raise _unreachable(failed) from None
    except StoreError as refused:
        if isinstance(refused.__context__, Unreachable):  # the same, met by way of a store
            raise _unreachable(refused.__context__) from None
        raise _refused(refused.reason, str(refused), path) from None


def _refused(reason: str, message: str, kubeconfig: Path) -> click.ClickException:
    if reason == "Unauthorized":
        message = f"the server does not take the credentials in {kubeconfig}: revoked, expired, or another server's"
    return click.ClickException(f"{reason}: {message}")


def _unreachable(failed: Exception) -> click.ClickException:
    return click.ClickException(f"{failed}; is it running? `headrace status` shows it")


def _once(message: str) -> Callable[[], None]:
    """Tells it at the first call."""
    left = [message]

    def tell() -> None:
        if left:
            click.echo(left.pop(), err=True)

    return tell


def run(work: Awaitable[None]) -> None:
    """The one event loop of a command."""

    async def whole() -> None:
        await work

    asyncio.run(whole())
