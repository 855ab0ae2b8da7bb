"""Which parents of groups this node has made, kept in a file: the next agent may be started in another cgroup.

Without it, what an agent that was killed left in its place would be nobody's.
"""

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from headrace.node.cgroups import directories


class Parents:
    """Paths of cgroup directories `…/headrace/INSTANCE`. A file that cannot be read counts as empty."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def known(self) -> list[Path]:
        """Those that still exist."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return [
                path for text in json.loads(self._file.read_text(encoding="utf-8")) if (path := Path(text)).is_dir()
            ]
        return []

    def note(self, paths: Iterable[Path]) -> None:
        """To be called before the first group is made below them."""
        known = self.known()
        if missing := [path for path in paths if path not in known]:
            self._write([*known, *missing])

    def prune(self) -> None:
        """Remove those that are empty. Writes only what changed: a full disk keeps nobody from ending containers."""
        known = self.known()
        directories.prune(known)
        if (left := self.known()) != known:
            self._write(left)

    def _write(self, paths: Iterable[Path]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_name(f"{self._file.name}.new")
        temporary.write_text(json.dumps([str(path) for path in paths]), encoding="utf-8")
        os.replace(temporary, self._file)
