"""A file system that has become read-only is named by every command, and nobody is sent to a backup for it."""

import subprocess

import pytest

from tests.trust.servers import directory_of_server, small_file_system

pytestmark = pytest.mark.trust


@pytest.fixture
def mounted(tmp_path):
    with small_file_system(tmp_path, 16) as where:
        yield where


def test_what_lies_still_is_whole_on_a_read_only_file_system_and_a_server_says_why_it_does_not_start(mounted):
    with directory_of_server(mounted / "data") as server:
        server.start()
        server.stop()
        subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
        told = server.run("doctor")
        assert told.returncode == 1
        assert "data: nothing can be written there" in told.stdout
        assert "every page, index and checksum of it is right" in told.stdout
        assert "backup" not in told.stdout
        started = server.run("server", "--port", "0", "--agents-port", "0")
        assert started.returncode == 1
        assert started.stderr == f"Error: {server.file} cannot be opened: Read-only file system\n"
