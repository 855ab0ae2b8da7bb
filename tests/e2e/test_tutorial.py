"""The tutorial's commands, as they are printed, one after the other, on a machine of its own."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-resize-policy.md"
STEP = re.compile(r"```sh\n(?P<script>.*?)```|<!-- until: (?P<words>.*?) -->", re.DOTALL)
WAIT_SECONDS = 240.0
ELSEWHERE = """
headrace() {
  if [ "$1" = up ]; then shift; set -- up --port 0 --agents-port 0 --node-name tutorial --runtime process "$@"; fi
  %s -m headrace.cli "$@"
}
"""


def run(script, directory):
    """With ports and a directory that disturb nobody; everything else is as printed."""
    shell = ["sh", "-e", "-c", ELSEWHERE % sys.executable + script]
    env = {**os.environ, "HEADRACE_DATA_DIR": str(directory / "data")}
    done = subprocess.run(shell, cwd=directory, env=env, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="limits of a tenth of a core need cgroups")
def test_a_first_resize_policy(tmp_path):
    script = ""
    try:
        for step in STEP.finditer(PAGE.read_text()):
            if step["script"]:
                script = step["script"]
                told = run(script, tmp_path)
                continue
            deadline = time.monotonic() + WAIT_SECONDS
            while step["words"] not in told:
                assert time.monotonic() < deadline, told
                time.sleep(0.5)
                told = run(script, tmp_path)
    finally:
        run("headrace down --grace-period 1 || true", tmp_path)
