"""A copy of a keeper's directory has no keeper while the original has one: both would keep the same containers."""

import shutil

import pytest

from headrace.node.keeper.launch import KeeperFailed, ensure_keeper
from tests.node.keeper.conftest import Kept, runs


async def test_a_copy_never_takes_the_containers_of_a_keeper_that_runs(kept: Kept, tmp_path) -> None:
    await kept.start("c", "sleep", "100")
    keeper = await kept.pid()
    shutil.copytree(
        kept.data_dir / "keeper", tmp_path / "copy/keeper", ignore=shutil.ignore_patterns("*.sock", "fifos")
    )
    with pytest.raises(KeeperFailed, match=f"copy of a directory in use: .* kept by the process with pid {keeper}"):
        await ensure_keeper(tmp_path / "copy")
    state = await kept.state("c")
    assert state is not None
    assert runs(state["pid"])
