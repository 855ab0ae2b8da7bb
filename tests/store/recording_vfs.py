"""An SQLite VFS that notes every write, sync and truncation, so that each state a power cut could leave can be rebuilt.

Model: what a sync of a file covered is there; of later writes to it any part may be, in sectors of 512 bytes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import apsw

NAME = "recording"
SECTOR = 512
MODES = ("none", "all", "some", "torn")

Survival = Literal["none", "all", "some", "torn"]
"""What is left of writes that no sync covered."""


@dataclass(frozen=True)
class Operation:
    kind: Literal["write", "sync", "truncate", "delete"]
    file: str
    offset: int = 0
    data: bytes = b""


class RecordingDisk(apsw.VFS):
    def __init__(self) -> None:
        self.log: list[Operation] = []
        super().__init__(NAME, "")

    def xOpen(self, name, flags):
        return _File(self.log, name, flags)

    def xDelete(self, name, sync_directory):
        super().xDelete(name, sync_directory)
        self.log.append(Operation("delete", Path(name).name))


class _File(apsw.VFSFile):
    def __init__(self, log: list[Operation], name, flags) -> None:
        super().__init__("", name, flags)
        self._log = log
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name).name

    def xWrite(self, data, offset):
        super().xWrite(data, offset)
        self._log.append(Operation("write", self._name, offset, bytes(data)))

    def xSync(self, flags):
        super().xSync(flags)
        self._log.append(Operation("sync", self._name))

    def xTruncate(self, size):
        super().xTruncate(size)
        self._log.append(Operation("truncate", self._name, size))


def after_power_cut(log: Sequence[Operation], survival: Survival, chance: random.Random) -> dict[str, bytes]:
    """The files as they may be when the power goes after the last operation of `log`."""
    durable: dict[str, bytearray] = {}
    pending: dict[str, list[Operation]] = {}
    for operation in log:
        name = operation.file
        if operation.kind == "sync":
            for each in pending.pop(name, []):
                _apply(durable, each)
            durable.setdefault(name, bytearray())
        elif operation.kind == "delete":
            durable.pop(name, None)
            pending.pop(name, None)
        else:
            pending.setdefault(name, []).append(operation)
    for operations in pending.values():
        for operation in operations:
            for part in _surviving(operation, survival, chance):
                _apply(durable, part)
    return {name: bytes(content) for name, content in durable.items() if not name.endswith("-shm")}


def _surviving(operation: Operation, survival: Survival, chance: random.Random) -> list[Operation]:
    if survival == "all" or (survival == "some" and chance.random() < 0.5):
        return [operation]
    if survival != "torn":
        return []
    if operation.kind == "truncate":
        return [operation] if chance.random() < 0.5 else []
    sectors = range(0, len(operation.data), SECTOR)
    return [
        Operation("write", operation.file, operation.offset + start, operation.data[start : start + SECTOR])
        for start in sectors
        if chance.random() < 0.5
    ]


def _apply(files: dict[str, bytearray], operation: Operation) -> None:
    content = files.setdefault(operation.file, bytearray())
    if len(content) < operation.offset:
        content.extend(bytes(operation.offset - len(content)))
    if operation.kind == "truncate":
        del content[operation.offset :]
    else:
        content[operation.offset : operation.offset + len(operation.data)] = operation.data
