"""What may change of a PersistentVolumeClaim (ValidatePersistentVolumeClaimUpdate of Kubernetes)."""

from typing import Any

import pytest

from headrace.objects.strategies.storage import ClaimStrategy
from headrace.objects.validation.errors import FieldErrors


def claim(storage: str, attributes: str = "slow", capacity: str = "", phase: str = "Bound") -> dict[str, Any]:
    return {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "volumeAttributesClassName": attributes,
            "resources": {"requests": {"storage": storage}},
        },
        "status": {"phase": phase, **({"capacity": {"storage": capacity}} if capacity else {})},
    }


SIZE, SPEC = "spec.resources.requests.storage", "spec"


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (claim("1Gi"), claim("2Gi"), []),
        (claim("1Gi"), claim("1Gi", "fast"), []),
        (claim("1Gi", phase="Pending"), claim("2Gi", phase="Pending"), [SPEC]),
        (claim("2Gi", capacity="1Gi"), claim("1536Mi", capacity="1Gi"), []),
        (claim("2Gi", capacity="1Gi"), claim("1Gi", capacity="1Gi"), [SIZE]),
        (claim("1Gi", phase="Pending"), claim("1500m", phase="Pending"), [SPEC]),
    ],
    ids=[
        "a bound claim grows",
        "and changes its class of attributes",
        "one that is not bound does neither",
        "a growth that failed is taken back above what there is",
        "but not down to it",
        "of a claim that has nothing yet the size is a part of the spec",
    ],
)
def test_a_change_is_judged_by_what_the_claim_has(old: dict[str, Any], new: dict[str, Any], refused: list[str]) -> None:
    errors = FieldErrors()
    ClaimStrategy().validate_update(new, old, errors)
    assert [each.field for each in errors.causes] == refused
