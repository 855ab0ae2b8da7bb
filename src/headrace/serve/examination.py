"""A look at a data directory from outside, for `headrace doctor`: its file, certificates, disk and keeper.

It starts nothing and changes nothing, also while a server runs on the directory.
"""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from headrace.node.keeper.launch import SOCKET
from headrace.serve.home import FILE
from headrace.store.faults import Corrupt, failed_read
from headrace.store.protocol import StoreError
from headrace.store.schema import Foreign, Newer, refuse_foreign
from headrace.store.verify import folded

KEEPER_SECONDS = 2.0
RESTORE = "Stop the server, keep a copy of the file and restore a backup"
UPGRADE = "Upgrade headrace on this machine, and start it again"
MOVE = "Move that file away, or use another --data-dir"
LOOK = "Look at the disk, at who may read the file, and at which other program has it open; then ask again"


@dataclass(frozen=True, slots=True)
class Space:
    free: int
    total: int


def space(data_dir: Path) -> Space:
    """Bytes of the file system that holds the directory."""
    found = shutil.disk_usage(data_dir)
    return Space(found.free, found.total)


def certificates(data_dir: Path) -> Iterator[tuple[Path, float]]:
    """Every certificate of the server and of the agent here, and when it ends (seconds since the epoch)."""
    from cryptography import x509

    for folder in (data_dir / "pki", data_dir / "agent" / "pki", data_dir / "pki" / "node"):
        for path in sorted(folder.glob("*.crt")):
            yield path, x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the file, and what to do."""

    message: str
    remedy: str


def has_file(data_dir: Path) -> bool:
    """Else the server is another machine's."""
    return (data_dir / FILE).exists()


def file_problem(data_dir: Path) -> Problem | None:
    """What is wrong with the file: every page, every object's checksum, every index. None when all is well."""
    path = data_dir / FILE
    try:
        refuse_foreign(path)
        with closing(_opened(path)) as connection:
            connection.set_busy_timeout(2_000)
            connection.execute("BEGIN")  # one snapshot, whatever a running server writes
            verdict = connection.execute("PRAGMA integrity_check(1)").get
            if verdict != "ok":
                return Problem(f"{path} is damaged: {verdict}", RESTORE)
            folded(connection, str(path))
    except Newer as newer:
        return Problem(str(newer), UPGRADE)
    except Foreign as foreign:
        return Problem(str(foreign), MOVE)
    except apsw.Error as error:
        found = failed_read(error, str(path))
        return Problem(str(found), RESTORE if isinstance(found, Corrupt) else LOOK)
    except OSError as error:
        return Problem(f"{path} cannot be read: {error.strerror}", LOOK)
    except StoreError as damage:
        return Problem(str(damage), RESTORE)
    return None


def _opened(path: Path) -> apsw.Connection:
    """A file that was closed in order has no log; where nothing can be written, it is then all there is to read."""
    if os.access(path.parent, os.W_OK) or Path(f"{path}-wal").exists():
        return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    still = f"{path.absolute().as_uri()}?immutable=1"
    return apsw.Connection(still, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def keeper_problem(data_dir: Path) -> str | None:
    """Why the keeper of the agent here cannot be reached. Empty when it can; None when no agent ran here yet."""
    directory = data_dir / "keeper"
    if not directory.exists():
        directory = data_dir / "agent" / "keeper"
    if not directory.exists():
        return None
    # Through the directory's descriptor: the path itself may be longer than a socket's address can hold.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(KEEPER_SECONDS)
            client.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
    except OSError as error:
        return f"the keeper in {directory} does not answer: {error.strerror or error}"
    finally:
        os.close(descriptor)
    return ""
