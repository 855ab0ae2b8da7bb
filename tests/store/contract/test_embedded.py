"""What our homes do beyond Kubernetes: a container's status has two writers, so the list merges by name there.

Kubernetes replaces the whole list, also in a strategic merge patch; on a cluster the kubelet is its only writer.
"""

import pytest

from headrace.api import kinds
from headrace.store.protocol import Store
from tests.store.contract.legs import CLUSTER_LEGS, LEGS
from tests.store.contract.samples import pod

pytestmark = pytest.mark.parametrize("store", [leg for leg in LEGS if leg not in CLUSTER_LEGS], indirect=True)


async def test_statuses_of_containers_merge_by_name(store: Store, namespace: str) -> None:
    """The agent and the resize controller write different fields of the same container."""
    await store.create(kinds.POD, pod("a"), namespace)
    writes = (
        {"name": "main", "ready": True, "restartCount": 0, "image": "app:1", "imageID": ""},
        {"name": "main", "allocatedResources": {"cpu": "100m"}},
        {"name": "main", "restartCount": 1},
    )
    for write in writes:
        fields = {"status": {"containerStatuses": [write]}}
        await store.patch(kinds.POD, "a", namespace, fields=fields, strategic=True, subresource="status")
    found = (await store.get(kinds.POD, "a", namespace))["status"]["containerStatuses"]
    assert [(each["ready"], each["restartCount"], each["allocatedResources"]) for each in found] == [
        (True, 1, {"cpu": "100m"})
    ]
