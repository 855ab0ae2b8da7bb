"""`headrace capacity`: figures that people read, as short as they may be."""

import pytest

from headrace.cli.capacity import figure, readable
from headrace.ledger.pods import charged


@pytest.mark.parametrize(
    ("resource", "amount", "shown"),
    [
        ("memory", 24684092 * 1024, "23.5Gi"),
        ("memory", 64 << 20, "64Mi"),
        ("memory", 1536 << 20, "1.5Gi"),
        ("memory", 832 << 20, "832Mi"),
        ("memory", -(64 << 20), "-64Mi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("ephemeral-storage", 5 << 40, "5Ti"),
        ("cpu", 1500, "1500m"),
        ("pods", 2048, "2048"),
    ],
)
def test_bytes_are_told_to_a_tenth_of_their_largest_unit(resource: str, amount: int, shown: str) -> None:
    assert figure(resource, amount) == shown


def test_a_pod_that_cannot_be_read_is_named_and_counted_without_that() -> None:
    """(One such Pod of a cluster ended the command in a traceback.)"""
    containers = [{"name": "app", "resources": {"requests": {"cpu": "many", "memory": "1Ki"}}}]
    odd = {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"nodeName": "a", "containers": containers}}
    [pod], [told] = readable([odd])
    assert told.startswith("Pod default/odd: spec.containers[app].resources.requests[cpu]: 'many' cannot be read")
    found = charged(pod)
    assert found is not None
    assert found.held() == {"memory": 1024, "pods": 1}
