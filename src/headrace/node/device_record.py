"""Which claims are prepared here and for which Pods: the agent's checkpoint, on disk before it is acted upon.

A claim stands in it from before its driver is first called until after the driver has let go, so that a crash anywhere
between leaves something to undo, and nothing prepared is forgotten.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec


class PreparedDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """As the driver answered. `requests` empty: of every request."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi: tuple[str, ...]


class PreparedDriver(msgspec.Struct, frozen=True, omit_defaults=True):
    """`prepared` false: the call was begun, its outcome is not known. `skips`: operations that it has no part in."""

    prepared: bool
    devices: tuple[PreparedDevice, ...] = ()
    skips: tuple[str, ...] = ()


class PreparedClaim(msgspec.Struct, frozen=True):
    """`pods` empty: its last user was let go without the driver, which still has to unprepare it.

    `whole`: the devices (`driver/pool/device`) that are this claim's alone.
    """

    namespace: str
    name: str
    uid: str
    pods: tuple[str, ...]
    drivers: dict[str, PreparedDriver]
    whole: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True):
    boot: str
    claims: list[PreparedClaim]


class DeviceRecord:
    """Every change is on disk (written beside, synced, renamed) before the method returns. Raises OSError.

    `boot` identifies the running kernel: after a restart of the machine nothing is prepared any more, but all of it
    still has to be unprepared or prepared again.
    """

    def __init__(self, path: Path, boot: str) -> None:
        self._path, self._boot = path, boot
        self._claims: dict[str, PreparedClaim] = {}
        if path.exists():
            found = msgspec.json.decode(path.read_bytes(), type=_File)
            same = found.boot == boot
            self._claims = {claim.uid: claim if same else _unprepared(claim) for claim in found.claims}

    def get(self, uid: str) -> PreparedClaim | None:
        return self._claims.get(uid)

    def claims(self) -> list[PreparedClaim]:
        return list(self._claims.values())

    def of_pod(self, pod_uid: str) -> list[PreparedClaim]:
        return [claim for claim in self._claims.values() if pod_uid in claim.pods]

    def put(self, claim: PreparedClaim) -> None:
        if self._claims.get(claim.uid) != claim:
            self._write(self._claims | {claim.uid: claim})

    def remove(self, uid: str) -> None:
        if uid in self._claims:
            self._write({key: claim for key, claim in self._claims.items() if key != uid})

    def _write(self, claims: dict[str, PreparedClaim]) -> None:
        content = msgspec.json.encode(_File(self._boot, list(claims.values())))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._claims = claims


def unprepared(drivers: Mapping[str, PreparedDriver]) -> dict[str, PreparedDriver]:
    """The same drivers, of which nobody knows whether anything is prepared."""
    return {name: PreparedDriver(False, skips=driver.skips) for name, driver in drivers.items()}


def _unprepared(claim: PreparedClaim) -> PreparedClaim:
    return msgspec.structs.replace(claim, drivers=unprepared(claim.drivers))
