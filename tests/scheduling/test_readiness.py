"""Until when a Pod waits for devices that must be attached first."""

import pytest

from headrace.api.times import to_time
from headrace.scheduling.readiness import BINDING_TIMEOUT_SECONDS, readiness

NOW = 1_800_000_000.0
DAY = 86_400.0


def waiting(allocated_at):
    result = {"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0", "bindingConditions": ["attached"]}
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": to_time(allocated_at)}
    return {"metadata": {"name": "gpu"}, "status": {"allocation": allocation}}


@pytest.mark.parametrize(
    ("allocated_at", "failure", "left"),
    [
        pytest.param(NOW, "", BINDING_TIMEOUT_SECONDS, id="just allocated"),
        pytest.param(NOW - 400, "", BINDING_TIMEOUT_SECONDS - 400, id="for a while"),
        pytest.param(NOW - 601, "device binding timeout: claim=gpu", None, id="longer than anybody waits"),
        pytest.param(
            NOW + DAY, "device binding timeout: claim=gpu", None, id="by a clock that was set back by a day since"
        ),
    ],
)
def test_until_when_a_device_may_be_attached(allocated_at, failure, left):
    found = readiness([waiting(allocated_at)], NOW)
    assert (found.is_ready, found.failure) == (False, failure)
    if left is not None:
        assert found.until - NOW == left
