"""Where headrace keeps its state on this machine, and which server a command talks to."""

import os
from pathlib import Path

import click

CONVENTIONAL_PORT = 7443
DATA_DIR_HELP = (
    "Where state is kept; default: $HEADRACE_DATA_DIR, /var/lib/headrace for root, else ~/.local/share/headrace."
)


def data_directory(given: str | None = None) -> Path:
    """`--data-dir`, $HEADRACE_DATA_DIR, /var/lib/headrace for root, else under XDG_DATA_HOME."""
    if given or os.environ.get("HEADRACE_DATA_DIR"):
        return Path(given or os.environ["HEADRACE_DATA_DIR"]).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/headrace")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "headrace"


def kubeconfig_path(given: str | None, data_dir: str | None) -> Path:
    """`--kubeconfig`, the one in `--data-dir`, $KUBECONFIG, the one `up` wrote here: the first that there is."""
    written = data_directory(data_dir) / "kubeconfig"
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    if given:
        if not Path(given).exists():
            raise click.UsageError(f"--kubeconfig {given}: no such file")
        return Path(given)
    if data_dir is None and named and Path(named).exists():
        return Path(named)
    if written.exists():
        return written
    raise click.ClickException(f"no server found: {written} does not exist; start one with `headrace up`")


def served_directory(given: str | None, data_dir: str | None) -> Path | None:
    """The data directory of the server that `kubeconfig_path` finds; None where it is not on this machine."""
    directory = data_directory(data_dir)
    try:
        found = kubeconfig_path(given, data_dir).absolute()
    except click.ClickException:
        return directory if directory.exists() else None
    if found == directory / "kubeconfig":
        return directory
    return found.parent if (found.parent / "headrace.db").exists() else None
