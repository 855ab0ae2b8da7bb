"""One server a test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.apiserver.serving import Serving, WrittenLogs, serving


@pytest.fixture
def logs() -> WrittenLogs:
    return WrittenLogs()


@pytest.fixture
async def server(tmp_path: Path, logs: WrittenLogs) -> AsyncIterator[Serving]:
    async with serving(tmp_path, logs) as opened:
        yield opened
