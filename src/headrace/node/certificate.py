"""The agent's own client certificate: a key made here that never leaves, a certificate by join token, renewed in time.

Files in one directory: `node.key` (0600), `node.crt`, `ca.crt`. Renewed after two thirds of its life.
"""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headrace.node.x509 import Certificate, read


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the files lie. What they hold may change at any time by renewal: read them when connecting."""

    directory: Path

    @property
    def key(self) -> Path:
        return self.directory / "node.key"

    @property
    def certificate(self) -> Path:
        return self.directory / "node.crt"

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    def exist(self) -> bool:
        return self.key.exists() and self.certificate.exists() and self.ca.exists()

    def node(self) -> str:
        """Whose certificate it is. Raises OSError, ValueError."""
        return self._read().common_name.removeprefix("system:node:")

    def refusal(self, node: str) -> str:
        """Why this directory cannot be that node's; empty where it can, or where its files cannot be read."""
        try:
            found = self.node() if self.exist() else node
        except (OSError, ValueError):
            return ""
        if found == node:
            return ""
        return (
            f"--node-name {node}: {self.directory.parent} belongs to node {found}, and a node keeps its name; "
            f"give --node-name {found}, or another --data-dir"
        )

    def store(self, certificate: str, ca: str) -> None:
        """Keep what was answered to a request. Each file is whole or as it was."""
        write_whole(self.ca, ca.encode(), 0o644)
        write_whole(self.certificate, certificate.encode(), 0o644)

    def renews_at(self) -> float:
        """When two thirds of the certificate's life are over: wall seconds."""
        found = self._read()
        return (found.begins + (found.ends - found.begins) * 2 / 3).timestamp()

    def ends_at(self) -> datetime:
        return self._read().ends

    def _read(self) -> Certificate:
        return read(self.certificate.read_text())


def lifetime_words(credentials: Credentials) -> str:
    """For the log: until when the certificate holds."""
    return credentials.ends_at().strftime("%Y-%m-%d %H:%M UTC")


def write_whole(path: Path, content: bytes, mode: int) -> None:
    """The file has this content on disk, or is as it was."""
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
