"""Whether the kernel killed in a container for memory, although its cgroup is gone when its end is told.

On v1 the kernel signals an eventfd for each OOM and once more for the removal of the cgroup (cgroup-v1/memory.rst,
section 10): two or more mean that there was one. On v2 Podman itself knows (State.OOMKilled).
"""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from headrace.node.cgroups import files

SETTLE_SECONDS = 0.1  # the kernel signals a removal from a work queue, shortly after it
_LOOK_SECONDS = 0.01


class OomWatch:
    """Of one container's v1 memory cgroup, from now until `close`."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError when the cgroup is gone or cannot be watched."""
        self._control, self._signals = directory / "memory.oom_control", 0
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            control = os.open(self._control, os.O_RDONLY | os.O_CLOEXEC)
            try:
                files.write(directory / "cgroup.event_control", f"{self._descriptor} {control}")
            finally:
                os.close(control)
        except OSError:
            os.close(self._descriptor)
            raise

    async def killed(self) -> bool:
        """Asked once the container has ended."""
        try:
            return files.read_field(self._control, "oom_kill") > 0
        except OSError:  # removed already
            pass
        for _ in range(int(SETTLE_SECONDS / _LOOK_SECONDS)):
            if self._seen() >= 2:
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return self._seen() >= 2

    def close(self) -> None:
        os.close(self._descriptor)

    def _seen(self) -> int:
        with contextlib.suppress(BlockingIOError):
            self._signals += os.eventfd_read(self._descriptor)
        return self._signals


def memory_directory(directories: Sequence[str]) -> Path | None:
    """The v1 memory cgroup among a container's directories."""
    return next((Path(each) for each in directories if (Path(each) / "memory.oom_control").exists()), None)
