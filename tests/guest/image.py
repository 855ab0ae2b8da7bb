"""The guest's disk: this Python with its libraries, this project and busybox, under the same paths as outside.

So what is tested inside is what lies in the tree outside. Made anew for every boot, without being root.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIZE = "2G"  # sparse: what is not written takes no room
RESULTS = "/results"  # a directory inside, read after the guest has gone
_NOT_NEEDED = (
    *("__pycache__/*.tmp", "test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages"),
    *("config-3.*", "*.a"),
)
_TOOLS = (  # of the development environment, which no test of the guest imports
    *("mypy*", "*__mypyc*", "ast_serialize*", "librt*", "grimp*", "importlinter*", "grpc_tools*", "ruff*", "uv"),
    *("uv-*", "uv_build*", "setuptools*", "pip", "pip-*", "rich", "towncrier*", "_distutils_hack"),
    "distutils-precedence.pth",
)


def make(stage: Path, image: Path, busybox: Path, init: str) -> None:
    """Fill `stage` and make an ext4 image of it. Raises CalledProcessError with mke2fs' words."""
    _directories(stage)
    _programs(stage, busybox)
    _write(stage / "guest/init", init, 0o755)
    _python(stage)
    _project(stage)
    _libraries(stage)
    subprocess.run(
        ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", stage, image, SIZE],
        env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
        check=True,
        capture_output=True,
    )


def read(image: Path, path: str) -> str:
    """A file of the image; empty when it is not there."""
    done = subprocess.run(
        ["debugfs", "-R", f"cat {path}", image],
        env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def _directories(stage: Path) -> None:
    for name in ("bin", "proc", "sys", "dev", "run", "root", "etc", RESULTS.strip("/")):
        (stage / name).mkdir(parents=True)
    (stage / "tmp").mkdir()
    (stage / "tmp").chmod(0o1777)
    _write(stage / "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n")
    _write(stage / "etc/group", "root:x:0:\nuser:x:1000:\n")
    _write(stage / "etc/hosts", "127.0.0.1 localhost guest\n")


def _programs(stage: Path, busybox: Path) -> None:
    shutil.copy2(busybox, stage / "bin/busybox")
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for name in listed:
        if name != "busybox":
            (stage / "bin" / name).symlink_to("busybox")


def _python(stage: Path) -> None:
    program = Path(sys.executable).resolve()
    _copy(stage, program)
    stdlib = Path(sysconfig.get_path("stdlib"))
    _copy_tree(stage, stdlib, _NOT_NEEDED)
    venv = Path(sys.prefix)
    _copy(stage, venv / "pyvenv.cfg")
    link = stage / str(Path(sys.executable)).lstrip("/")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(program)
    _copy_tree(stage, Path(sysconfig.get_path("purelib")), _TOOLS)


def _project(stage: Path) -> None:
    _copy(stage, ROOT / "pyproject.toml")
    for name in ("src", "tests", "docs"):
        _copy_tree(stage, ROOT / name, ())


def _libraries(stage: Path) -> None:
    """What the program and the extension modules are linked with, as ldd finds it here."""
    linked = [path for path in stage.rglob("*.so*") if path.is_file()]
    wanted: set[Path] = set()
    for some in _chunks([Path(sys.executable).resolve(), *(Path("/") / path.relative_to(stage) for path in linked)]):
        told = subprocess.run(["ldd", *some], check=False, capture_output=True, text=True).stdout
        wanted |= {Path(path) for path in re.findall(r"(?:=> |^\t)(/\S+) \(0x", told, re.MULTILINE)}
    for path in sorted(wanted):
        if not (stage / str(path).lstrip("/")).exists():
            _copy(stage, path)


def _chunks(paths: Sequence[Path]) -> Iterable[Sequence[Path]]:
    return (paths[start : start + 50] for start in range(0, len(paths), 50))


def _copy(stage: Path, path: Path) -> None:
    """To the same place inside, with its time of change, by which compiled modules are known to be fresh."""
    target = stage / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)


def _copy_tree(stage: Path, path: Path, ignored: Sequence[str]) -> None:
    target = stage / str(path).lstrip("/")
    shutil.copytree(path, target, symlinks=True, ignore=shutil.ignore_patterns(*ignored), dirs_exist_ok=True)


def _write(path: Path, text: str, permissions: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(permissions)
