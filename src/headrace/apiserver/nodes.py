"""What the API server asks of the machines that run containers; the agents' stream implements it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from headrace.store.protocol import Unavailable


@dataclass(frozen=True, slots=True)
class LogOptions:
    """`tail_lines` None: all. `since_seconds` counts back from now; `limit_bytes` None: no limit."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    limit_bytes: int | None = None


class Nodes(Protocol):
    """Raises NotFound when the node runs no such container, Unavailable when the node cannot be reached."""

    def logs(self, node: str, pod_uid: str, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """What the container wrote, in pieces of any size; with `follow` until it ends or the caller stops reading."""
        ...


class NoNodes:
    """A server without agents: every question is answered by saying so."""

    async def logs(self, node: str, pod_uid: str, container: str, options: LogOptions) -> AsyncGenerator[bytes, None]:
        raise Unavailable(f"no agent of node {node!r} is connected")
        yield b""
