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
from headrace.store.schema import refuse_foreign
from headrace.store.verify import folded

KEEPER_SECONDS = 2.0


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


def file_problem(data_dir: Path) -> str | None:
    """What is wrong with the file: every page, every object's checksum, every index. Empty when all is well.

    None where there is no file: the server is another machine's.
    """
    path = data_dir / FILE
    if not path.exists():
        return None
    try:
        refuse_foreign(path)
        with closing(_opened(path)) as connection:
            connection.set_busy_timeout(2_000)
            connection.execute("BEGIN")  # one snapshot, whatever a running server writes
            verdict = connection.execute("PRAGMA integrity_check(1)").get
            if verdict != "ok":
                return f"{path} is damaged: {verdict}"
            folded(connection, str(path))
    except Corrupt as damage:
        return str(damage)
    except apsw.Error as error:
        return str(failed_read(error, str(path)))
    except StoreError as refused:
        return str(refused)
    return ""


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
