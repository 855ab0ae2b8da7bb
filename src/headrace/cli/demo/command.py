"""`headrace demo`: the main job from a manifest to a cgroup and back, on a server of its own that leaves nothing."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from headrace.cli.demo.stage import Stage, StepFailed


@click.command()
@click.option("--keep", is_flag=True, help="Leave the server running and its data where it is.")
@click.option("--kubectl/--no-kubectl", default=True, help="Use kubectl where it is installed (default), or never.")
def demo(keep: bool, kubectl: bool) -> None:
    """Run the main job to its end on a server of its own, showing every command; exits 1 if a step was not right."""
    from headrace.cli.demo.steps import STEPS

    data_dir = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    stage = Stage(data_dir, click.echo, kubectl=shutil.which("kubectl") if kubectl else None)
    began = time.monotonic()
    failed = ""
    try:
        stage.write("headrace: capacity ahead of demand. Every line after a $ is a command you can run yourself.")
        for number, (title, step) in enumerate(STEPS, start=1):
            stage.title(f"{number} · {title}")
            step(stage)
    except StepFailed as wrong:
        failed = str(wrong)
    finally:
        if keep:
            click.echo(f"   kept: {data_dir} (end it with `headrace down --data-dir {data_dir}`)")
        else:
            _down(data_dir)
    stage.write("")
    if failed:
        raise click.ClickException(f"the demo stopped: {failed}")
    stage.write(f"{stage.checks} checks passed in {time.monotonic() - began:.0f} s.")


def _down(data_dir: Path) -> None:
    """Nothing stays behind: processes, cgroups, files."""
    command = [sys.executable, "-m", "headrace.cli", "down", "--data-dir", str(data_dir), "--grace-period", "1"]
    subprocess.run(command, capture_output=True, check=False)
    shutil.rmtree(data_dir, ignore_errors=True)
