"""Where a driver's two sockets lie below an agent's (a kubelet's) directory, and why they cannot lie there. Pure."""

import os
from pathlib import Path

PATH_BYTES = 107  # of a unix socket's address, in Linux


def endpoint_of(directory: Path, driver: str) -> Path:
    """Serves the DRA API."""
    return directory / "plugins" / driver / "dra.sock"


def registry_of(directory: Path, driver: str) -> Path:
    """Tells the agent of the endpoint."""
    return directory / "plugins_registry" / f"{driver}-reg.sock"


def too_long(path: Path) -> str:
    """Why no socket can be bound there, or nothing."""
    length = len(os.fsencode(path))
    if length <= PATH_BYTES:
        return ""
    return (
        f"socket {path}: {length} bytes long, a unix socket's path has at most {PATH_BYTES}; choose a shorter directory"
    )


def refusal(directory: Path, driver: str) -> str:
    """Why this driver could serve nobody below `directory`, or nothing."""
    return too_long(registry_of(directory, driver)) or too_long(endpoint_of(directory, driver))
