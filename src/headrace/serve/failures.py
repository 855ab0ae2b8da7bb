"""What can keep a part from starting or end it, each with a message that a person can act on."""

from headrace.client.errors import ApiError, Unreachable
from headrace.client.kubeconfig import BadKubeconfig
from headrace.node.joining import JoinFailed
from headrace.node.keeper.launch import KeeperFailed
from headrace.store.protocol import StoreError

FAILURES: tuple[type[Exception], ...] = (
    StoreError,
    ApiError,
    Unreachable,
    BadKubeconfig,
    JoinFailed,
    KeeperFailed,
    OSError,
    ValueError,
    RuntimeError,
)
