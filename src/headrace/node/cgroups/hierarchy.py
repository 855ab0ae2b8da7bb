"""Where cgroups are: mounts by /proc/self/mountinfo, a process's place by /proc/PID/cgroup. Never by a path pattern."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

UNIFIED = ""  # the name of the v2 hierarchy where v1 ones are named after their controllers
Version = Literal["v1", "hybrid", "v2", "none"]


@dataclass(frozen=True, slots=True)
class Mounted:
    """A hierarchy and where it can be seen; `root` is the cgroup that lies at its mount point."""

    mount_point: Path
    root: str

    def directory(self, cgroup: str) -> Path | None:
        """The directory of a cgroup; None when it lies outside what is mounted."""
        if self.root == "/" and ".." not in cgroup:  # nearly always, and asked for each container again and again
            return self.mount_point / cgroup.strip("/")
        relative = os.path.relpath(cgroup, self.root)
        if relative.startswith(".."):
            return None
        return self.mount_point if relative == "." else self.mount_point / relative


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """All mounted hierarchies by controller; the v2 one under UNIFIED."""

    mounted: Mapping[str, Mounted]
    proc: Path = Path("/proc")

    @property
    def version(self) -> Version:
        v1 = any(name != UNIFIED for name in self.mounted)
        if UNIFIED in self.mounted:
            return "hybrid" if v1 else "v2"
        return "v1" if v1 else "none"

    def places(self, pid: int | str) -> dict[str, Path]:
        """The process's cgroup directory by controller. Raises ProcessLookupError when there is no such process."""
        try:
            text = (self.proc / str(pid) / "cgroup").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ProcessLookupError(f"process {pid} does not exist") from None
        found = {}
        for line in text.splitlines():
            _, names, cgroup = line.split(":", 2)
            for name in names.split(","):
                mounted = self.mounted.get(name)
                directory = mounted.directory(cgroup) if mounted is not None else None
                if directory is not None:
                    found[name] = directory
        return found

    def controllers(self, directory: Path) -> list[str]:
        """Whose cgroup this directory is: one controller, or several that are mounted together."""
        return [name for name, mounted in self.mounted.items() if directory.is_relative_to(mounted.mount_point)]


def find(proc: Path = Path("/proc")) -> Hierarchies:
    """Read this process's mountinfo. The first mount of a hierarchy counts."""
    mounted: dict[str, Mounted] = {}
    for line in (proc / "self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind not in ("cgroup", "cgroup2"):
            continue
        _, _, _, root, mount_point = fields.split(" ")[:5]
        names = [UNIFIED] if kind == "cgroup2" else _v1_names(options)
        for name in names:
            mounted.setdefault(name, Mounted(Path(_unescape(mount_point)), _unescape(root)))
    return Hierarchies(mounted, proc)


_NOT_CONTROLLERS = frozenset({"rw", "ro", "noprefix", "clone_children", "xattr"})


def _v1_names(options: str) -> list[str]:
    return [name for name in options.split(",") if name not in _NOT_CONTROLLERS and "=" not in name]


def _unescape(text: str) -> str:
    """mountinfo writes space, tab, newline and backslash in octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
