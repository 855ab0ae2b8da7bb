"""Durable records: one JSON file a container, written to a new file, synced, renamed: what was answered is on disk."""

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)


class Records:
    """The directory of records. A file's name is the container's id."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        os.makedirs(directory, mode=0o700, exist_ok=True)

    def write(self, id: str, record: "dict[str, Any]", *, durable: bool = True) -> None:
        """Whole or not at all. Not durable: a loss of power may bring the former record back."""
        path = self.path(id)
        temporary = f"{path}.new"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            data = json.dumps(record, separators=(",", ":")).encode()
            while data:
                data = data[os.write(descriptor, data) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        if durable:
            self._sync()

    def remove(self, id: str) -> None:
        try:
            os.unlink(self.path(id))
        except FileNotFoundError:
            return
        self._sync()

    def load(self, say: "Callable[[str], None]") -> "dict[str, dict[str, Any]]":
        """All whole records. What a crash left half written was never answered to anybody, and goes.

        A record that the disk has spoilt is set aside: the others must have their keeper.
        """
        records = {}
        for name in sorted(os.listdir(self.directory)):
            path = os.path.join(self.directory, name)
            if name.endswith(".new"):
                os.unlink(path)
            elif name.endswith(".json"):
                try:
                    with open(path, "rb") as file:
                        records[name[: -len(".json")]] = json.load(file)
                except ValueError as error:
                    say(f"{path}: {error}: set aside; what it described is a stray now")
                    os.replace(path, f"{path}.spoilt")
        return records

    def path(self, id: str) -> str:
        return os.path.join(self.directory, f"{id}.json")

    def _sync(self) -> None:
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_id(id: object) -> bool:
    """Ids are file names: letters, digits, dot, dash, underscore, at most 200."""
    return isinstance(id, str) and _ID.fullmatch(id) is not None
