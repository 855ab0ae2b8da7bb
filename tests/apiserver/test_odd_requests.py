"""Whatever is sent, the answer is Kubernetes' Status and never a fault of ours."""

import json
from collections import Counter

import pytest

from headrace.client.http import Client
from tests.apiserver.joined import joined
from tests.apiserver.mutations import requests
from tests.apiserver.serving import Serving

REQUESTS = 400
NOT_FAULTS = (501, 504)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("caller", ["the administrator", "a node"])
async def test_no_request_is_a_fault(server: Serving, caller: str, seed: int) -> None:
    cluster = server.cluster() if caller == "the administrator" else await joined(server, "a")
    kinds = list(server.store.registry.all())
    codes: Counter[int] = Counter()
    async with Client(cluster) as client:
        assert client._session is not None
        for odd in requests(kinds, seed, REQUESTS):
            async with client._session.http.request(
                odd.method, odd.path, params=odd.query, data=odd.body, headers=odd.headers
            ) as response:
                text = await response.text()
            codes[response.status] += 1
            assert response.status < 500 or response.status in NOT_FAULTS, f"{odd}: {text}"
            if response.status >= 400:
                status = json.loads(text)
                assert (status["kind"], status["code"]) == ("Status", response.status), odd
    assert len(codes) > 3, codes
