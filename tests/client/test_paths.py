"""A name that cannot be one is refused before anything is sent: its URL would mean all objects, or what is above."""

import pytest

from headrace.api.kinds import NODE, POD
from headrace.client.errors import ApiError
from headrace.client.paths import object_path
from headrace.store.kubernetes import KubernetesStore
from headrace.store.protocol import BadRequest


@pytest.mark.parametrize("name", ["", ".", "..", "../default", "a/status", "a%2fb"])
async def test_no_such_name(name: str) -> None:
    with pytest.raises(ApiError, match="name of a Pod"):
        object_path(POD, "default", name)
    with pytest.raises(BadRequest):
        await KubernetesStore(None).delete(POD, name, "default")  # type: ignore[arg-type]  # nothing is asked


def test_no_such_namespace() -> None:
    with pytest.raises(ApiError, match="cannot be the namespace"):
        object_path(POD, "..", "web")


def test_names_that_may_be() -> None:
    assert object_path(POD, "default", "web", "status") == "/api/v1/namespaces/default/pods/web/status"
    assert object_path(NODE, "", "system:node:a") == "/api/v1/nodes/system%3Anode%3Aa"
