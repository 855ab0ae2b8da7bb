"""A claim's CDI document on disk, and the only record a driver needs: there means prepared.

The file's name is a hash of the claim's uid: nothing that a user writes becomes part of a path. Content is the
driver's.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headrace.api.cdi import Device, read, spec

DRAFT = ".tmp"


class CdiFiles:
    """`kind` is the CDI kind (`vendor/class`) of this driver's claims."""

    def __init__(self, directory: Path, driver: str, kind: str) -> None:
        self._directory, self._driver, self.kind = directory, driver, kind

    def write(self, claim_uid: str, devices: Sequence[Device]) -> tuple[str, ...]:
        """Their qualified names, once the document is on disk, whole. Raises OSError, InvalidCdi.

        Without devices there is no document: an empty one is invalid and would break every other one's reader.
        """
        if not devices:
            self.remove(claim_uid)
            return ()
        document = msgspec.json.encode(spec(devices, self.kind))
        path = self.path(claim_uid)
        if not path.exists() or path.read_bytes() != document:
            self._directory.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(DRAFT)
            with open(draft, "wb") as file:
                file.write(document)
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
            self._sync()
        return tuple(f"{self.kind}={device.name}" for device in devices)

    def remove(self, claim_uid: str) -> None:
        """Raises OSError."""
        path, gone = self.path(claim_uid), False
        for each in (path, path.with_suffix(DRAFT)):  # the draft, where a death kept it from being renamed
            if each.exists():
                each.unlink()
                gone = True
        if gone:
            self._sync()

    def devices(self, claim_uid: str) -> tuple[Device, ...]:
        """What is written for a claim; nothing if it is not prepared. Raises InvalidCdi."""
        path = self.path(claim_uid)
        return read(path.read_bytes()).devices if path.exists() else ()

    def path(self, claim_uid: str) -> Path:
        digest = hashlib.sha256(claim_uid.encode()).hexdigest()[:32]
        return self._directory / f"{self._driver}-claim_{digest}.json"

    def _sync(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
