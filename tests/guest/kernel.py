"""Debian's cloud kernel for the guest, fetched by apt and unpacked into ~/.cache/headrace; nothing is installed.

What apt cannot deliver is an error with apt's words, never a skipped test.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

META_PACKAGE = "linux-image-cloud-amd64"  # depends on the newest kernel's package
# What the guest needs to see its disk, in the order of loading; the cloud kernel has ext4 built in.
MODULES = (
    "drivers/virtio/virtio_ring.ko",
    "drivers/virtio/virtio.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko",
    "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci.ko",
    "drivers/block/virtio_blk.ko",
)
_APT_SECONDS = 600


class CannotFetch(Exception):
    """The kernel is not to be had; the message has apt's words."""


@dataclass(frozen=True, slots=True)
class Kernel:
    folder: Path

    @property
    def image(self) -> Path:
        return self.folder / "vmlinuz"

    def module(self, name: str) -> bytes:
        return (self.folder / Path(name).name).read_bytes()


def kernel() -> Kernel:
    """From the cache, fetched if it is not there. Raises CannotFetch."""
    folder = Path.home() / ".cache" / "headrace" / "guest-kernel"
    if not folder.exists():
        _fetch(folder)
    return Kernel(folder)


def _fetch(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Made whole beside its place and moved there: a fetch that was cut short leaves nothing that looks finished.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="guest-kernel-fetching-") as draft:
        try:
            package = _download(Path(draft))
        except CannotFetch:  # the lists name what the archive has replaced since, or there are none yet
            _run(["apt-get", "update", "-qq"], Path(draft))
            package = _download(Path(draft))
        _run(["dpkg-deb", "--extract", package.name, "unpacked"], Path(draft))
        whole = Path(draft) / "whole"
        whole.mkdir()
        unpacked = Path(draft) / "unpacked"
        _only(unpacked.glob("boot/vmlinuz-*"), "boot/vmlinuz-*").rename(whole / "vmlinuz")
        for name in MODULES:
            _only(unpacked.glob(f"lib/modules/*/kernel/{name}"), name).rename(whole / Path(name).name)
        (whole / "package").write_text(f"{package.stem}\n", encoding="utf-8")
        if not folder.exists():
            whole.rename(folder)


def _download(draft: Path) -> Path:
    found = re.search(r"Depends: (linux-image-\S+)", _run(["apt-cache", "depends", META_PACKAGE], draft))
    if found is None:
        raise CannotFetch(f"apt knows no kernel by the name of {META_PACKAGE}")
    _run(["apt-get", "download", "-qq", found[1]], draft)
    return _only(draft.glob("linux-image-*.deb"), "linux-image-*.deb")


def _only(found: Iterable[Path], what: str) -> Path:
    paths = list(found)
    if len(paths) != 1:
        raise CannotFetch(f"the kernel's package should have one {what}, it has {len(paths)}")
    return paths[0]


def _run(command: Sequence[str], draft: Path) -> str:
    try:
        done = subprocess.run(command, cwd=draft, capture_output=True, text=True, check=False, timeout=_APT_SECONDS)
    except FileNotFoundError:
        raise CannotFetch(f"the guest's kernel comes from Debian: {command[0]} is missing here") from None
    if done.returncode:
        raise CannotFetch(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout
