"""`headrace explain pod`: whether a node has room is what the guard would say, which counts what is reserved."""

from typing import Any

import pytest

from headrace.api.kinds import CAPACITY_RESERVATION
from headrace.cli.explain import Found, lines
from headrace.ledger.books import Books
from headrace.ledger.document import document

NODE: dict[str, Any] = {
    "metadata": {"name": "node-a"},
    "spec": {},
    "status": {
        "capacity": {"cpu": "4", "memory": "4Gi"},
        "allocatable": {"cpu": "4", "memory": "4Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
RESERVATION: dict[str, Any] = {
    "metadata": {"name": "kept", "namespace": "default"},
    "spec": {"node": "node-a", "resources": {"cpu": "3"}, "beneficiaries": {"pods": ["expected"]}},
}


def pod(name: str, node: str = "", **meta: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}]}
    metadata = {"name": name, "namespace": "default", "uid": name, **meta}
    return {"metadata": metadata, "spec": {**spec, "nodeName": node} if node else spec, "status": {"phase": "Pending"}}


def told(name: str, **found: Any) -> str:
    return next(line for line in lines(Found(pod(name), [NODE], [], **found)) if line.startswith("  node-a: "))


def served(*pods: dict[str, Any], reserved: bool = False) -> Any:
    objects = [
        (("nodes", "", "node-a"), NODE),
        *((("pods", "default", each["metadata"]["name"]), each) for each in pods),
    ]
    if reserved:
        objects.append(((CAPACITY_RESERVATION.resource, "default", "kept"), RESERVATION))
    return document(1, 0.0, Books.fold(objects).nodes(), ())


@pytest.mark.parametrize(
    "books",
    [
        pytest.param({"reservations": [RESERVATION]}, id="of the objects"),
        pytest.param({"served": served(reserved=True)}, id="that the server keeps"),
    ],
)
def test_what_a_reservation_keeps_is_no_room_but_for_its_beneficiary(books: dict[str, Any]) -> None:
    """(It said "has room", and the scheduler would not place it.)"""
    refused = "insufficient cpu: 2 more wanted, 1 available of 4 (most is held by CapacityReservation default/kept 3)"
    assert refused in told("web", **books)
    assert told("expected", **books) == "  node-a: has room"
    assert told("web") == "  node-a: has room"


def test_what_only_the_servers_books_know_counts() -> None:
    """What was deleted and not confirmed by its node stands in them, and is no object any more."""
    books = served(pod("gone", "node-a"), pod("gone-too", "node-a"))
    assert told("web", served=books).startswith("  node-a: Insufficient cpu")


def test_a_pod_that_cannot_be_read_is_named_and_the_rest_is_shown() -> None:
    """As on a cluster, whose Pods are judged by others. (It ended in a traceback.)"""
    odd = pod("odd", "node-a")
    odd["status"]["containerStatuses"] = [{"name": "app", "allocatedResources": {"cpu": "many"}}]
    shown = list(lines(Found(pod("web"), [NODE], [odd, pod("other", "node-a")])))
    [named] = [line for line in shown if "cannot be read" in line]
    assert named.startswith("  Pod default/odd: status.containerStatuses[app].allocatedResources[cpu]: 'many' cannot")
    [node] = [line for line in shown if line.startswith("  node-a: ")]
    assert "insufficient cpu: 2 more wanted, 0 available of 4" in node


def test_a_pod_that_cannot_be_read_is_explained_as_far_as_it_can_be() -> None:
    odd = pod("odd")
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    shown = list(lines(Found(odd, [NODE], [])))
    assert "  node-a: has room" in shown
    assert any(line.startswith("  Pod default/odd: spec.containers[app].resources.requests[cpu]") for line in shown)


def test_sidecars_are_shown_beside_the_containers() -> None:
    served = pod("web")
    served["spec"]["initContainers"] = [
        {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    ]
    served["status"]["initContainerStatuses"] = [{"name": "proxy", "allocatedResources": {"cpu": "500m"}}]
    [shown] = [line for line in lines(Found(served, [NODE], [])) if line.startswith("proxy")]
    assert shown.split() == ["proxy", "cpu", "1/no", "limit", "cpu", "500m/no", "limit", "-", "not", "started"]
