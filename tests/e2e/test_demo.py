"""The demo from its first line to its last, against a transcript that people have read.

What differs from run to run (ports, times, hashes, figures measured) is written as `…`. There is one transcript for a
machine where cgroups enforce limits, one for where they are approximate.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VARIES = (
    (r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:…"),
    (r"pid \d+", "pid …"),
    (r"/\S*headrace-demo-\w+", "DATA"),
    (r"uses \d\.\d\d CPU", "uses … CPU"),
    (r"trainer(-2)?-gpu-[0-9a-f]{8}", r"trainer\1-gpu-…"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"(Ready +<none> +)\d+s +(v[\d.]+)", r"\1…   \2"),
    (r"in \d+ s\.", "in … s."),
    (r"cgroup (v1|v2|hybrid)", "cgroup …"),
    (r"(limits are approximate here|limits approximate): .*", r"\1: …"),
    (r"affinity and rlimit: \d+m CPU", "affinity and rlimit: … CPU"),
    (r"latency( is)? \d+ ms", r"latency\1 … ms"),
    (r"\d+ ms now", "… ms now"),
    (r'"value": \d+(\.\d+)?', '"value": …'),
    (r"latency \d+(\.\d+)? above", "latency … above"),
    (r"/sys/fs/cgroup/\S+", "CGROUP"),
    (r"process \d+", "process …"),
    (r"put right after \d+\.\d s", "put right after … s"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME                "),
)


def readable(transcript: str) -> str:
    for pattern, stable in VARIES:
        transcript = re.sub(pattern, stable, transcript)
    return "\n".join(line.rstrip() for line in transcript.splitlines()) + "\n"


DEMO = [sys.executable, "-m", "headrace.cli", "demo", "--no-kubectl"]
READ_ONLY_CGROUPS = """
for place in $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts); do mount -o remount,bind,ro "$place" || exit 3; done
exec "$@"
"""


def transcript(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return readable(done.stdout)


def test_the_demo_reads_as_it_should():
    found = transcript(DEMO)
    name = "demo-enforced.txt" if "limits are enforced" in found else "demo-approximate.txt"
    assert found == (HERE / name).read_text()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="taking cgroups away needs root; without root they are not there anyway")
def test_the_demo_names_the_approximation_where_cgroups_cannot_be_written():
    found = transcript(["unshare", "--mount", "sh", "-c", READ_ONLY_CGROUPS, "sh", *DEMO])
    assert found == (HERE / "demo-approximate.txt").read_text()


def test_the_demos_manifests_are_those_of_the_examples():
    examples = {each.name: each for folder in ("devices", "resize") for each in (ROOT / "examples" / folder).iterdir()}
    for manifest in (ROOT / "src/headrace/cli/demo/manifests").iterdir():
        assert manifest.read_text() == examples[manifest.name].read_text()
