"""The two locks say the same, so that a set-up by pip and one by uv bring the same packages."""

import subprocess
from pathlib import Path

import uv

ROOT = Path(__file__).parents[2]


def test_the_requirements_file_is_what_the_lock_exports():
    exported = subprocess.run(
        [
            uv.find_uv_bin(),
            *("export", "--frozen", "--offline", "--all-groups"),
            *("--no-emit-project", "--no-header", "--format", "requirements-txt"),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    written = (ROOT / "requirements.txt").read_text()
    assert [line for line in written.splitlines() if not line.startswith("#")] == exported.splitlines()
