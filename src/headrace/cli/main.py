"""The `headrace` command: a lazily loaded group, so that `--help` imports no command.

Exit codes: 0 done, 1 failed, 2 used wrongly. A user's mistake is one line that says what to do, never a stack trace.
"""

import gc
import importlib
import os
import sys
from typing import Any

import click

from headrace.cli.groups import Named

COMMANDS = {
    "up": ("headrace.cli.up:up", "Run everything on this machine: API, controllers, node agent."),
    "down": ("headrace.cli.up:down", "Stop what `up` started; containers end unless --keep-containers."),
    "status": ("headrace.cli.up:status", "Show whether headrace runs here and what it serves."),
    "demo": ("headrace.cli.demo.command:demo", "Watch the main job from a manifest to a cgroup and back."),
    "server": ("headrace.cli.parts:server", "Run the API server and the controllers alone."),
    "agent": ("headrace.cli.parts:agent", "Run a node agent that joins a server."),
    "driver": ("headrace.cli.parts:driver", "Run a device driver that ships with headrace."),
    "controllers": ("headrace.cli.cluster:controllers", "Run the controllers against a Kubernetes cluster."),
    "manifests": ("headrace.cli.cluster:manifests", "Print what a Kubernetes cluster needs for `controllers`."),
    "adopt": ("headrace.cli.adopt:adopt", "Make a running Podman container a Pod, without touching it."),
    "token": ("headrace.cli.token:token", "Create the tokens with which agents join; revoke credentials."),
    "apply": ("headrace.cli.objects:apply", "Create or update objects from manifests."),
    "get": ("headrace.cli.objects:get", "Show objects as a table, JSON or YAML."),
    "delete": ("headrace.cli.objects:delete", "Delete objects by name or manifest."),
    "logs": ("headrace.cli.logs:logs", "Print a container's output."),
    "capacity": ("headrace.cli.capacity:capacity", "Show each node's ledger: total, reserved, allocated, available."),
    "explain": ("headrace.cli.explain:explain", "Say why an object is as it is: `explain pod NAME`."),
    "doctor": ("headrace.cli.doctor.command:doctor", "Check that all is well, and say what to do where it is not."),
    "resize": ("headrace.cli.resize:resize", "Change limits of running workloads; show their history."),
    "top": ("headrace.cli.top:top", "Show what workloads use, may use and should have, live."),
    "simulate": ("headrace.cli.simulate:simulate", "Ask what would be answered: claim, resize, cel, allocate."),
}
# Set before anything imports it: what gRPC prints of its threads and sockets helps nobody, and our errors name them.
# Its fork handlers are for processes that go on using it after a fork; here children are only ever executed.
QUIET_GRPC = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}

YOUNG_OBJECTS = 20_000
"""Between two collections. A command mostly imports: with Python's 700 it looks at code that stays dozens of times."""


class Lazy(Named):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        found: click.Command = getattr(importlib.import_module(module), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace")
def root() -> None:
    """Capacity ahead of demand: one ledger that resizes what runs and hands out devices.

    `headrace up` starts it on this machine; kubectl works with the kubeconfig that it prints.
    """


def main(arguments: list[str] | None = None) -> Any:
    """Entry point. Errors in the user's reach are told in one line."""
    gc.set_threshold(YOUNG_OBJECTS)
    for name, value in QUIET_GRPC.items():
        os.environ.setdefault(name, value)
    try:
        return root.main(args=arguments, prog_name="headrace", standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.UsageError as wrong:
        wrong.show()
        sys.exit(2)
    except click.ClickException as failed:
        failed.show()
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        click.echo("headrace: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as failed:  # a disk, a permission, an address: the system's reason, and of what
        click.ClickException(_told(failed)).show()
        sys.exit(1)


def _told(failed: OSError) -> str:
    if isinstance(failed, PermissionError) and failed.filename is not None:
        return f"{failed.filename}: {failed.strerror}: run this as the user whose it is, or name another --data-dir"
    return str(failed)
