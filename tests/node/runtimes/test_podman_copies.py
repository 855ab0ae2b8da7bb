"""Containers that people make of ours carry our labels, and are theirs all the same."""

import pytest

from headrace.node.runtimes.podman import PodmanRuntime
from tests.node.runtimes.test_podman import Home, home

__all__ = ["home"]
pytestmark = [pytest.mark.podman, pytest.mark.xdist_group("podman")]


async def test_a_container_of_an_image_that_was_made_of_ours_is_neither_taken_for_it_nor_removed(home: Home) -> None:
    ours = await home.start("a", "sleep", "600")
    theirs = {
        "image": (await home.podman.call("POST", "/commit", {"container": home.name("a"), "repo": "localhost/made"}))[
            "Id"
        ],
        "command": ["sleep", "600"],
        "netns": {"nsmode": "host"},
        "r_limits": [{"type": name, "soft": 1024, "hard": 1024} for name in ("nofile", "nproc")],
    }
    try:
        for name in ("running", "created"):
            await home.podman.call("POST", "/containers/create", body={"name": name, **theirs})
        await home.podman.call("POST", "/containers/running/start")
        labels = (await home.podman.call("GET", "/containers/running/json"))["Config"]["Labels"]
        assert labels["headrace.dev/id"] == "a"
        assert [(each.id, each.pid) for each in await home.runtime.list()] == [("a", ours.pid)]
        again = await PodmanRuntime.open(home.directory, home.service.socket)
        assert [(each.id, each.pid) for each in await again.list()] == [("a", ours.pid)]
        await again.close()
        assert (await home.podman.call("GET", "/containers/created/json"))["State"]["Status"] == "created"
    finally:
        for name in ("running", "created"):
            await home.podman.call("DELETE", f"/containers/{name}", {"force": "true", "timeout": "0"})
        home.service.podman("rmi", "--force", "localhost/made")
