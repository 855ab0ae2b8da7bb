"""What a client may ask, checked: wrong requests are refused with a word, before anything is done."""

import os
import signal

from headrace.node.keeper.frames import VERSION
from headrace.node.keeper.record import is_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


OPERATIONS = "start, signal, kill, remove, get, list, watch, hello, stop"


class Failed(Exception):
    """A refusal: `code` is Invalid, NotFound, Running, StartFailed, Version or Internal."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @staticmethod
    def unless_version(version: object) -> None:
        if version != VERSION:
            raise Failed("Version", f"v {version!r}: this keeper speaks version {VERSION}")


def check_signal(number: object) -> int:
    if not isinstance(number, int) or not 0 < number < signal.NSIG:
        raise Failed("Invalid", f"signal {number!r}: must be a number from 1 to {signal.NSIG - 1}")
    return number


def check_start(request: "dict[str, Any]") -> "dict[str, Any]":
    """The specification of a container out of a start request, with only the known fields."""
    id = request.get("id")
    if not is_id(id):
        raise Failed("Invalid", f"id {id!r}: must be letters, digits, '.', '_', '-', at most 200")
    argv, env = request.get("argv"), request.get("env")
    if not isinstance(argv, list) or not argv or not all(isinstance(text, str) and "\0" not in text for text in argv):
        raise Failed("Invalid", "argv: must be a list of texts, at least one")
    if not isinstance(env, dict) or any("=" in key or "\0" in f"{key}{value}" for key, value in env.items()):
        raise Failed("Invalid", "env: must be an object of texts, without '=' in names")
    for name in ("log_path", *(("working_dir",) if request.get("working_dir") else ())):
        if not isinstance(request.get(name), str) or not os.path.isabs(request[name]):
            raise Failed("Invalid", f"{name} {request.get(name)!r}: must be an absolute path")
    for mount in request.get("mounts", ()):
        if not os.path.isabs(mount.get("source", "")) or not os.path.isabs(mount.get("target", "")):
            raise Failed("Invalid", f"mounts {mount!r}: source and target must be absolute paths")
    return {name: request[name] for name in _FIELDS if request.get(name) is not None} | {
        "working_dir": request.get("working_dir") or "/"
    }


_FIELDS = (
    "id",
    "argv",
    "env",
    "log_path",
    "mounts",
    "uid",
    "gid",
    "cgroups",  # directories of the container's cgroups, joined before exec
    "address_space",  # bytes, approximate mode
    "cpus",  # numbers, approximate mode
    "labels",  # kept for the client
)
