"""One fresh store a test."""

from collections.abc import AsyncIterator

import pytest

from headrace.objects.local import LocalStore
from tests.objects.stores import opened


@pytest.fixture
async def store() -> AsyncIterator[LocalStore]:
    store = await opened()
    yield store
    await store.rows.close()
