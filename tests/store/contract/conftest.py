"""Each test of the contract runs on each home, in a namespace of its own."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.api import kinds
from headrace.store.protocol import Store
from tests.store.contract.legs import LEGS


@pytest.fixture(params=LEGS, ids=list(LEGS))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with LEGS[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
async def namespace(store: Store) -> str:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    await store.create(kinds.NAMESPACE, {"metadata": {"name": name}})
    return name
