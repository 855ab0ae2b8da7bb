"""One boot of the guest under QEMU, emulated (no KVM is asked for): a command runs as its only work, then it is over.

A guest that dies or hangs is an error with the end of its console.
"""

import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.guest import cpio, image
from tests.guest.kernel import MODULES, Kernel

MEMORY_MIB = 1536
SWAP_MIB = 128  # so that limits are seen to come without it
# Its clock goes by the instructions it has executed (2**2 ns each): a busy machine outside makes the guest's time slow,
# not the guest. So no deadline inside is missed, and its timer's ticks cannot use up what little it gets. QEMU does
# that well with one CPU only.
INSTRUCTION_SHIFT = 2
CPUS = 1
CONSOLE_LINES = 60  # told when it dies

# The first file system of the kernel: no more than is needed to find the disk.
FIRST = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /bin/busybox insmod /modules/$module || exec /bin/busybox poweroff -f; done
/bin/busybox mount -t ext4 /dev/vda /disk || exec /bin/busybox poweroff -f
exec /bin/busybox switch_root /disk /guest/init
"""

# On the disk, as process 1: what a small system has, then the command. `cgroup2` alone is mounted: a unified hierarchy.
INIT = """#!/bin/sh
export PATH=/bin HOME=/root TERM=dumb PYTHONUNBUFFERED=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkswap /dev/vdb >/dev/null && swapon /dev/vdb
ip link set lo up
hostname guest
controllers=$(cat /sys/fs/cgroup/cgroup.controllers)
echo "guest: Linux $(uname -r), controllers $controllers, up after $(cut -d' ' -f1 /proc/uptime) s"
cd {directory}
{command}
echo $? >{results}/code
echo "guest: ended with $(cat {results}/code) after $(cut -d' ' -f1 /proc/uptime) s"
sync
poweroff -f
"""


class GuestDied(Exception):
    """It ended without a result, or did not end in time; the message has the end of its console."""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    console: str
    disk: Path

    def result(self, name: str) -> str:
        """What the command wrote to `/results/NAME`; empty when it did not."""
        return image.read(self.disk, f"{image.RESULTS}/{name}")


def run(
    kernel: Kernel, command: Sequence[str], folder: Path, seconds: float, say: Callable[[str], None] = print
) -> Ended:
    """Boot, run the command in the project's directory, wait for the end. `say` hears each line of the console.

    Raises GuestDied, FileNotFoundError when a program is missing.
    """
    qemu, busybox = _program("qemu-system-x86_64"), _program("busybox")
    disk, swap, first = folder / "disk.ext4", folder / "swap", folder / "first.cpio"
    init = INIT.format(directory=image.ROOT, command=shlex.join(command), results=image.RESULTS)
    with tempfile.TemporaryDirectory(dir=folder) as stage:
        image.make(Path(stage), disk, busybox, init)
    first.write_bytes(_first(kernel, busybox))
    with swap.open("wb") as file:
        file.truncate(SWAP_MIB << 20)
    console, in_time = follow(_arguments(qemu, kernel, first, (disk, swap)), seconds, say)
    code = image.read(disk, f"{image.RESULTS}/code").strip()
    if not in_time or not code:
        why = "it ended before its work" if in_time else f"no end within {seconds:g} s"
        raise GuestDied(f"the guest died: {why}. Its console ended:\n" + "\n".join(console[-CONSOLE_LINES:]))
    return Ended(int(code), "\n".join(console), disk)


def _first(kernel: Kernel, busybox: Path) -> bytes:
    names = [Path(name).name for name in MODULES]
    return cpio.archive(
        [
            *(cpio.directory(name) for name in ("bin", "dev", "disk", "modules")),
            cpio.file("bin/busybox", busybox.read_bytes()),
            *(cpio.file(f"modules/{name}", kernel.module(name), 0o644) for name in names),
            cpio.file("init", FIRST.format(modules=" ".join(names)).encode()),
        ]
    )


def _arguments(qemu: Path, kernel: Kernel, first: Path, disks: Sequence[Path]) -> list[str]:
    clock = f"shift={INSTRUCTION_SHIFT}"
    return [
        *(str(qemu), "-accel", "tcg", "-icount", clock, "-cpu", "Nehalem", "-smp", str(CPUS), "-m", f"{MEMORY_MIB}M"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"),
        *("-kernel", str(kernel.image), "-initrd", str(first)),
        # A panic ends the guest at once; mitigations would only cost time in an emulation.
        *("-append", "console=ttyS0 loglevel=3 panic=-1 mitigations=off random.trust_cpu=on cgroup_no_v1=all"),
        *(part for path in disks for part in ("-drive", f"file={path},format=raw,if=virtio,cache=unsafe")),
    ]


def follow(arguments: Sequence[str], seconds: float, say: Callable[[str], None]) -> tuple[list[str], bool]:
    """The console's lines, and whether it ended by itself."""
    console: list[str] = []
    late = threading.Event()
    with subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, give_up)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                console.append(line.rstrip())
                say(console[-1])
        finally:
            timer.cancel()
            process.kill()  # only what an exception left running
    return console, not late.is_set()


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"{name} is not installed: the guest needs qemu-system-x86 and busybox-static of Debian"
        )
    return Path(found)
