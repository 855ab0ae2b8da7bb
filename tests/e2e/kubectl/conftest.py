"""The real kubectl against a complete server. `HEADRACE_KUBECTL` names another binary than the one on PATH."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.apiserver.serving import Serving, WrittenLogs, serving

SECONDS = 30
KUBECTL = os.environ.get("HEADRACE_KUBECTL") or shutil.which("kubectl") or ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if KUBECTL:
        return
    reason = "kubectl is not on PATH and HEADRACE_KUBECTL is not set: what kubectl sees of the server is NOT tested"
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Output:
    code: int
    out: str
    err: str


@dataclass
class Kubectl:
    """`await kubectl("get", "pods")` gives the output and fails the test on an exit code that is not `code`."""

    environment: dict[str, str]
    directory: Path
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def __call__(self, *arguments: str, code: int = 0, stdin: str = "", **environment: str) -> str:
        output = await self.run(*arguments, stdin=stdin, **environment)
        assert output.code == code, f"kubectl {' '.join(arguments)}: exit code {output.code}\n{output.out}{output.err}"
        return output.out if code == 0 else output.err

    async def run(self, *arguments: str, stdin: str = "", **environment: str) -> Output:
        process = await self.start(*arguments, **environment)
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(stdin.encode())
        return Output(process.returncode or 0, out.decode(), err.decode())

    async def start(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.environment, **environment},
            cwd=self.directory,
        )
        self.processes.append(process)
        return process

    def file(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text)
        return str(path)

    async def stop(self) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.fixture
def logs() -> WrittenLogs:
    return WrittenLogs()


@pytest.fixture
async def server(tmp_path: Path, logs: WrittenLogs) -> AsyncIterator[Serving]:
    async with serving(tmp_path, logs) as opened:
        yield opened


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kubectl caches discovery below HOME: each server needs a fresh one."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
async def kubectl(server: Serving, home: Path) -> AsyncIterator[Kubectl]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": str(server.running.kubeconfig)}
    tool = Kubectl(environment, server.directory)
    yield tool
    await tool.stop()
