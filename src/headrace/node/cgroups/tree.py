"""Where this node's groups are: `headrace/INSTANCE` below the agent's own cgroup, one directory a container.

What cannot be had is said in words: then the runtime falls back to the approximation and reports the reason.
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from headrace.node.cgroups import directories, files, v1, v2
from headrace.node.cgroups.group import Group
from headrace.node.cgroups.hierarchy import UNIFIED, Hierarchies, Version
from headrace.node.cgroups.v1 import V1Group
from headrace.node.cgroups.v2 import V2Group
from headrace.node.keeper import identity

PARENT = "headrace"
SUPERVISOR = "headrace-supervisor"  # v2: where the agent itself goes, since only leaves may have processes
_ATTEMPTS = 3


class Unavailable(Exception):
    """Limits cannot be enforced by cgroups here; the message says what is missing."""


class Tree:
    """Use `plant`, which probes. A parent that was removed when it became empty is made again."""

    def __init__(self, hierarchies: Hierarchies, tops: Mapping[str, Path], instance: str) -> None:
        self._hierarchies, self._tops = hierarchies, dict(tops)
        self._parents = {name: top / PARENT / instance for name, top in tops.items()}

    @property
    def version(self) -> Version:
        return self._hierarchies.version

    def group(self, id: str) -> Group:
        """A container's group, which may not exist yet. Raises OSError when its parent cannot be made."""
        self.make_parents()
        paths = {name: parent / id for name, parent in self._parents.items()}
        return self._group(paths)

    def at(self, recorded: Iterable[str | Path]) -> Group:
        """The group that has these directories. Raises KeyError when one that limits is not among them."""
        paths = {
            name: Path(directory) for directory in recorded for name in self._hierarchies.controllers(Path(directory))
        }
        return self._group(paths)

    def of_process(self, pid: int) -> Group:
        """The group that enforces this process's limits now, wherever that is. Raises ProcessLookupError."""
        return self._group(self._hierarchies.places(pid))

    def end_trial(self, recorded: Iterable[str | Path]) -> None:
        """Take back what an agent that was killed left of a shrink; nothing on v1. Raises OSError, KeyError."""
        group = self.at(recorded)
        if isinstance(group, V2Group):
            group.end_trial()

    @property
    def parents(self) -> list[Path]:
        """Where new groups are made."""
        return list(dict.fromkeys(self._parents.values()))

    def found(self, parents: Iterable[Path], known: Collection[str] = ()) -> dict[str, list[Path]]:
        """What is in these parents: the directories of each id that is not known. Of thousands of groups most are."""
        found: dict[str, list[Path]] = {}
        for parent in parents:
            with contextlib.suppress(FileNotFoundError), os.scandir(parent) as entries:
                new = [each.name for each in entries if each.name not in known and each.is_dir(follow_symlinks=False)]
                for name in sorted(new):
                    found.setdefault(name, []).append(parent / name)
        return found

    def make_parents(self) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                for name, parent in self._parents.items():
                    directories.make(parent, self._tops[name])
                    if self.version == "v2":
                        for directory in (parent.parent, parent):
                            enable(directory)
                return
            except FileNotFoundError:  # another instance has just removed the empty parent
                if attempt == _ATTEMPTS - 1:
                    raise

    def _group(self, paths: Mapping[str, Path]) -> Group:
        if self.version == "v2":
            return V2Group(paths[UNIFIED])
        return V1Group({name: paths[name] for name in v1.CONTROLLERS if name in paths}, self._tops)


def plant(hierarchies: Hierarchies, instance: str, pid: int | str = "self") -> Tree:
    """Probe what this process may do and make the parent. Raises Unavailable with the reason."""
    if hierarchies.version == "none":
        raise Unavailable("no cgroup hierarchy is mounted")
    places = {
        name: place.parent if place.name == SUPERVISOR else place for name, place in hierarchies.places(pid).items()
    }
    if hierarchies.version == "v2":
        if UNIFIED not in places:
            raise Unavailable("the agent's own cgroup lies outside the mounted hierarchy")
        tops = {UNIFIED: _v2_top(places[UNIFIED], hierarchies.mounted[UNIFIED].mount_point)}
    else:
        tops = {name: places[name] for name in v1.CONTROLLERS if name in places and _writable(places[name])}
        for name in v1.NEEDED:
            if name not in places:
                raise Unavailable(f"cgroup controller {name} is not mounted")
            if name not in tops:
                raise Unavailable(f"{places[name]}: not writable by this user")
    tree = Tree(hierarchies, tops, instance)
    try:
        tree.make_parents()
    except OSError as error:
        raise Unavailable(f"{error.filename}: {error.strerror}") from None
    return tree


def enable(directory: Path) -> None:
    """Hand the controllers on to the children of a v2 cgroup. Raises OSError (EBUSY while it has processes)."""
    control = directory / "cgroup.subtree_control"
    enabled, available = files.read(control).split(), files.read(directory / "cgroup.controllers").split()
    missing = [f"+{name}" for name in v2.WANTED if name in available and name not in enabled]
    if missing:
        files.write(control, " ".join(missing))


def _v2_top(place: Path, root: Path) -> Path:
    """The agent's own cgroup if it was delegated to it, for root else the whole tree's."""
    candidates = [place, root] if os.geteuid() == 0 and place != root else [place]
    reasons = []
    for candidate in candidates:
        reason = _v2_refusal(candidate, root)
        if reason is None:
            return candidate
        reasons.append(reason)
    raise Unavailable(reasons[0])


def _v2_refusal(place: Path, root: Path) -> str | None:
    available = files.read(place / "cgroup.controllers").split()
    missing = [name for name in v2.NEEDED if name not in available]
    if missing:
        return (
            f"{place}: controllers {' and '.join(missing)} are not delegated; "
            "start with systemd-run --user --scope -p Delegate=yes"
        )
    if not _writable(place):
        return f"{place}: not writable by this user"
    try:
        if place != root:
            _leave(place)
        enable(place)
    except OSError as error:
        return f"{place}: {error.strerror}: other processes are in it; start headrace in a scope of its own"
    return None


def _leave(place: Path) -> None:
    """Only leaves may have processes: move ourselves and what started us to a leaf, if nobody else is here."""
    here = files.read(place / "cgroup.procs").split()
    if not here or not all(_is_ours(int(pid)) for pid in here):
        return
    leaf = place / SUPERVISOR
    leaf.mkdir(exist_ok=True)
    for pid in here:
        files.write(leaf / "cgroup.procs", pid)


def _is_ours(pid: int) -> bool:
    """Of our process group, or of that of the headrace that started us; a shell has its own."""
    found, groups = identity.stat(pid), {os.getpgrp()}
    parent = os.getppid()
    with contextlib.suppress(OSError):
        if os.path.samefile(f"/proc/{parent}/exe", "/proc/self/exe"):
            groups.add(os.getpgid(parent))
    return found is not None and found.group in groups


def _writable(directory: Path) -> bool:
    return os.access(directory, os.W_OK) and os.access(directory / "cgroup.procs", os.W_OK)
