"""`headrace capacity`: figures that people read, as short as they may be."""

import pytest

from headrace.cli.capacity import figure


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
