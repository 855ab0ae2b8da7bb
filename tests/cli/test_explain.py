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
