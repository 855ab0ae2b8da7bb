"""Each test of the contract runs on each home, in a namespace of its own."""

import uuid
from collections.abc import AsyncIterator

import pytest

from headrace.api import kinds
from headrace.store.protocol import Store
from tests.store.contract.legs import CLUSTER_LEGS, LEGS

PARAMETERS = [pytest.param(leg, marks=[pytest.mark.cluster] if leg in CLUSTER_LEGS else []) for leg in LEGS]


@pytest.fixture(params=PARAMETERS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with LEGS[request.param](request) as opened:
        yield opened


@pytest.fixture
async def namespace(store: Store) -> str:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    await store.create(kinds.NAMESPACE, {"metadata": {"name": name}})
    # Kubernetes admits no Pod without an account, and would mount its token into each.
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    await store.create(kinds.SERVICE_ACCOUNT, account, name)
    return name
