"""A launch that hangs, a keeper that hangs: each is a failure with words, and the next try works."""

import os
import secrets
import signal
import sys
from pathlib import Path

import pytest

from headrace.node.keeper import client, launch
from headrace.node.keeper.launch import KeeperFailed
from tests.node.eventually import eventually
from tests.node.keeper.conftest import Kept


def is_there(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


async def test_a_launch_that_hangs_is_told_and_ended_and_the_next_one_works(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = secrets.token_hex(8)
    hanging = kept.data_dir / f"python-{mark}"
    hanging.write_text(f"#!/bin/sh\nsleep 600 && : {mark}\n")
    hanging.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(hanging))
        patch.setattr(launch, "LAUNCH_SECONDS", 0.5)
        with pytest.raises(KeeperFailed, match=r"it has not started within 0\.5 s"):
            await kept.client.call("list")
    await eventually(lambda: not is_there(mark))
    assert await kept.client.call("list") == []


async def test_a_keeper_that_does_not_answer_is_told_and_used_again_when_it_does(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept.start("a", "sleep", "600")
    pid = await kept.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(client, "ANSWER_SECONDS", 0.5)
            with pytest.raises(KeeperFailed, match=r"no answer to list within 0\.5 s"):
                await kept.client.call("list")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert [each["id"] for each in await kept.client.call("list")] == ["a"]
