"""How a long-running command starts, says that it is ready, and stops on SIGTERM or Ctrl-C."""

import asyncio
import errno
import os
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable

import click

SWITCH_SECONDS = 0.0005
NAME_CHARACTERS = 253
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def until_stopped(work: Callable[[asyncio.Event], Awaitable[None]], *, serves: bool = False) -> None:
    """Runs `work`; a signal sets its event, a second one ends it hard. What fails is told in one line.

    `serves` takes uvloop, which halves what a request costs; but it waits for ever for the keeper's start, whose output
    ends only when its background process closes it.
    """
    from headrace.serve.failures import FAILURES
    from headrace.serve.supervisor import end_with_supervisor

    async def whole() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None

        def asked() -> None:
            if stop.is_set():
                task.cancel()
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked)
        end_with_supervisor()
        await work(stop)

    try:
        if serves:
            import uvloop

            # With the default of 5 ms a busy event loop would starve the store's writer thread.
            sys.setswitchinterval(SWITCH_SECONDS)
            uvloop.run(whole())
        else:
            asyncio.run(whole())
    except asyncio.CancelledError:
        raise click.ClickException("stopped before everything had ended") from None
    except BaseExceptionGroup as failed:
        first = _first(failed)
        if not isinstance(first, FAILURES):
            raise
        raise click.ClickException(_told(first)) from None
    except FAILURES as failed:
        raise click.ClickException(_told(failed)) from None


def _told(error: Exception) -> str:
    """A full disk alone has no name in the system's words."""
    words = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename is None:
        return f"{words}: free some on the data directory's disk and start again"
    return words


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def while_running(work: Awaitable[None], stop: asyncio.Event) -> None:
    """Until the work ends (for good or bad) or a stop is asked for, which cancels it."""
    running, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for each in (running, stopping):
            each.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)


def this_node(given: str | None) -> str:
    """What is given, or this machine's host name as Kubernetes would write it. Raises UsageError for no node name."""
    name = given or os.environ.get("HEADRACE_NODE_NAME") or socket.gethostname().lower().rstrip(".")
    if len(name) > NAME_CHARACTERS or not SUBDOMAIN.fullmatch(name):
        raise click.UsageError(f"--node-name {name!r}: must be a lowercase RFC 1123 subdomain, such as node-a")
    return name
