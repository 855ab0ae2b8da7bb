"""Who calls: a user, its groups, and the one role that these give."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["admin", "controller", "node", "viewer", "none"]

ADMIN = "system:admin"
ADMIN_GROUP = "system:masters"
CONTROLLER = "system:headrace"
CONTROLLER_GROUP = "headrace:controllers"
VIEWER = "viewer"
VIEWER_GROUP = "headrace:viewers"
NODE_PREFIX = "system:node:"
NODE_GROUP = "system:nodes"
AUTHENTICATED_GROUP = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller. `node` is the node's name where the role is `node`."""

    user: str
    groups: tuple[str, ...] = ()
    role: Role = "none"
    node: str = ""


def identity_of(user: str, groups: tuple[str, ...]) -> Identity:
    """The role comes from groups, as in Kubernetes; a node needs both its group and a name with the prefix."""
    node = user.removeprefix(NODE_PREFIX) if user.startswith(NODE_PREFIX) else ""
    role: Role = "none"
    if ADMIN_GROUP in groups:
        role = "admin"
    elif NODE_GROUP in groups:
        role = "node" if node else "none"
    elif CONTROLLER_GROUP in groups:
        role = "controller"
    elif VIEWER_GROUP in groups:
        role = "viewer"
    return Identity(user, (*groups, AUTHENTICATED_GROUP), role, node if role == "node" else "")


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a verified client certificate says. `issued` and `not_after` in seconds since the epoch."""

    identity: Identity
    issued: float
    not_after: float


SERIAL_RANDOM_BITS = 80


def issue_time(serial: int) -> float:
    """When one of our certificates was signed: its serial starts with that time, in milliseconds.

    The certificate's own notBefore lies a day back, for clocks that are behind, so a revocation could not tell by it
    which certificates came before and which after.
    """
    return (serial >> SERIAL_RANDOM_BITS) / 1000
