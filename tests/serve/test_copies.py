"""A data directory copied while it was in use: a command in the copy never reaches what runs in the original."""

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.main import root
from headrace.serve.announcement import Announced, announced, announcing
from headrace.serve.foresight import refusal
from headrace.serve.sole import agent_in, copy_refusal, sole_agent


def test_down_in_a_copy_does_not_end_the_server_of_the_original(tmp_path):
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    with announcing(original, Announced(os.getpid(), "https://127.0.0.1:1", 2, Path("kubeconfig"))):
        shutil.copytree(original, copy)
        assert announced(copy) is None
        assert announced(original) is not None
        told = CliRunner().invoke(root, ["down", "--data-dir", str(copy)])
    assert told.output == f"headrace does not run in {copy}\n"


async def test_an_agent_in_a_copy_leaves_the_containers_to_the_original_as_long_as_that_runs(tmp_path):
    original, copy = tmp_path / "original", tmp_path / "copy"
    async with sole_agent(original):
        shutil.copytree(original, copy)
        words = f"{copy} is a copy of the directory of the agent with pid {os.getpid()}, which runs"
        assert refusal(copy, "node-a", "process", None).startswith(words)
        with pytest.raises(RuntimeError, match=words):
            async with sole_agent(copy):
                pass
        assert agent_in(copy) is None
        (copy / "runtime").write_text("process\n")
        told = CliRunner().invoke(root, ["down", "--data-dir", str(copy)])
        assert told.exit_code == 1
        assert words in told.output
    assert copy_refusal(original) == ""


async def test_a_copy_of_a_directory_whose_agent_has_ended_is_taken_over(tmp_path):
    original, copy = tmp_path / "original", tmp_path / "copy"
    async with sole_agent(original):
        shutil.copytree(original, copy)
    lock = copy / "agent.lock"
    pid, started, number = lock.read_text().split()
    lock.write_text(f"{pid} {int(started) + 1} {number}\n")  # the pid is somebody else's by now
    async with sole_agent(copy):
        assert agent_in(copy) == os.getpid()
