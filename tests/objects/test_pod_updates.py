"""What a refused update of a Pod says of the way that there is."""

from typing import Any

import pytest

from headrace.objects.validation.errors import FieldErrors
from headrace.objects.validation.pod_updates import validate_update


def pod(cpu: str, command: str = "sh") -> dict[str, Any]:
    container = {"name": "main", "image": "app", "command": [command], "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 30}}


@pytest.mark.parametrize(
    ("now", "names_the_way"),
    [(pod("200m"), True), (pod("100m", "bash"), False)],
    ids=["other resources: by resize", "another command: there is none"],
)
def test_who_changes_resources_in_a_manifest_is_told_how_a_pod_is_resized(
    now: dict[str, Any], names_the_way: bool
) -> None:
    errors = FieldErrors()
    validate_update(now, pod("100m"), errors)
    (told,) = errors.causes
    assert "changed: spec.containers" in told.message
    assert ("`kubectl patch --subresource resize`" in told.message) is names_the_way
