"""A Podman service of its own for tests: its storage, its socket, and an image made from Debian's busybox-static."""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

APPLETS = (
    "sh",
    "cat",
    "dd",
    "echo",
    "env",
    "false",
    "head",
    "id",
    "ls",
    "sleep",
    "stat",
    "tail",
    "touch",
    "tr",
    "true",
    "wc",
)
IMAGE = "localhost/busybox:1"
GREETING = "localhost/greeting:1"  # has an entrypoint, a command, a user, a working directory and an environment
START_SECONDS = 20.0


@dataclass
class Service:
    directory: Path
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def socket(self) -> Path:
        return self.directory / "podman.sock"

    def command(self, *arguments: str) -> list[str]:
        places = ["--root", str(self.directory / "root"), "--runroot", str(self.directory / "run")]
        own = ["--cgroup-manager", "cgroupfs", "--events-backend", "file", "--tmpdir", str(self.directory / "tmp")]
        return ["podman", *places, "--runtime", "runc", *own, *arguments]

    def podman(self, *arguments: str, data: bytes = b"") -> str:
        env = {name: value for name, value in os.environ.items() if name != "CONTAINER_HOST"}
        done = subprocess.run(self.command(*arguments), input=data, capture_output=True, check=True, env=env)
        return done.stdout.decode()

    def serve(self) -> None:
        self.socket.unlink(missing_ok=True)
        with (self.directory / "service.log").open("ab") as log:
            address = f"unix://{self.socket}"
            self.process = subprocess.Popen(
                self.command("system", "service", "--time=0", address), cwd=self.directory, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.socket.exists():
            assert self.process.poll() is None, (self.directory / "service.log").read_text()
            assert time.monotonic() < deadline, "podman's service does not start"
            time.sleep(0.02)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def missing() -> str:
    """Why containers cannot be run here; empty when they can."""
    for command in ("podman", "runc", "conmon", "busybox"):
        if shutil.which(command) is None:
            return f"{command} is not installed: apt-get install podman runc conmon busybox-static"
    return "" if os.geteuid() == 0 else "the tests' containers need root"


def root_file_system() -> bytes:
    """A tar archive of busybox and the directories that a container needs."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as archive:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "work"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name in ("tmp", "work") else 0o755
            archive.addfile(directory)
        archive.add(str(shutil.which("busybox")), "bin/busybox")
        for name in APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return found.getvalue()


@contextmanager
def serving() -> Iterator[Service]:
    """Everything of it is gone afterwards. The path is short, as a socket's must be."""
    service = Service(Path(tempfile.mkdtemp(prefix="hp-", dir="/tmp")))
    try:
        data = root_file_system()
        service.podman("import", "-", IMAGE, data=data)
        own = ['ENTRYPOINT ["echo", "greeting"]', 'CMD ["nobody"]', "USER 1234", "WORKDIR /work", "ENV FROM=image"]
        changes = [part for each in own for part in ("--change", each)]
        service.podman("import", *changes, "-", GREETING, data=data)
        service.serve()
        yield service
    finally:
        subprocess.run(service.command("rm", "--all", "--force", "--time", "0"), capture_output=True, check=False)
        service.stop()
        subprocess.run(service.command("system", "reset", "--force"), capture_output=True, check=False)
        shutil.rmtree(service.directory, ignore_errors=True)
