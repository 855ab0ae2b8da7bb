"""What differs for the controllers of resizing between the embedded home and a real cluster."""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.api.objects import Object
from headrace.resize import cluster_pods


def _as_it_is(pod: Object) -> Object:
    return pod


def _none(pod: Object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Home:
    """`view`: a Pod as decisions read it. `left_alone`: why a Pod is not resized, or nothing.

    `guards`: the ledger is the arbiter: selected Pods become managed, and CapacityReservations count. Elsewhere
    kubelets are, which go by requests; there no limit is set above what the node has to give.
    """

    view: Callable[[Object], Object] = _as_it_is
    left_alone: Callable[[Object], str] = _none
    guards: bool = True


EMBEDDED = Home()
CLUSTER = Home(view=cluster_pods.as_decided, left_alone=cluster_pods.left_alone, guards=False)
