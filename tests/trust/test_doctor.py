"""`headrace doctor` on a real `headrace up`: all is well, and then what is broken is told and fails."""

import json
from pathlib import Path

import pytest

from tests.trust.servers import Server, directory_of_server, wait_for
from tests.trust.test_wall_clock import SLEEPER, UP, ready, sleeper
from tests.trust.writers import NODES, PODS

pytestmark = pytest.mark.trust

RESERVATION = {
    "apiVersion": "headrace.dev/v1alpha1",
    "kind": "CapacityReservation",
    "metadata": {"name": "kept"},
    "spec": {"node": "node-a", "resources": {"cpu": "100m", "memory": "64Mi"}},
}
RESERVATIONS = "/apis/headrace.dev/v1alpha1/namespaces/default/capacityreservations"


def findings(server: Server, code: int) -> list[dict[str, str]]:
    done = server.run("doctor", "-o", "json")
    assert done.returncode == code, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["healthy"] == (code == 0)
    return list(told["findings"])


def messages(found: list[dict[str, str]], check: str, level: str) -> list[str]:
    return [each["message"] for each in found if (each["check"], each["level"]) == (check, level)]


@pytest.fixture
def running(tmp_path):
    with directory_of_server(tmp_path / "data", command=UP) as server:
        try:
            server.start()
            caller = server.caller()
            wait_for("the node is ready", lambda: ready(caller) == "True")
            caller.call("POST", PODS, SLEEPER)
            wait_for("the Pod runs", lambda: sleeper(caller)[0] == "Running")
            yield server
        finally:
            server.stop()
            server.run("down", "--grace-period", "1")


def test_all_is_well_and_each_check_has_looked(running):
    found = findings(running, 0)
    checks = {"books", "certificates", "cgroups", "clock", "disk", "file", "keeper", "node", "server", "strays"}
    assert {each["check"] for each in found} == checks
    assert messages(found, "books", "ok") == ["node node-a: what its 1 holders hold is what their objects say"]


def test_a_reservation_is_part_of_the_fold(running):
    code, answer = running.caller().call("POST", RESERVATIONS, RESERVATION)
    assert code == 201, answer
    assert messages(findings(running, 0), "books", "fail") == []


def test_what_is_deleted_and_not_confirmed_is_told(running):
    caller = running.caller()
    caller.call("POST", NODES, {"metadata": {"name": "gone"}, "status": {"capacity": {"cpu": "4", "memory": "4Gi"}}})
    lost = {**SLEEPER, "metadata": {"name": "lost"}, "spec": {**SLEEPER["spec"], "nodeName": "gone"}}
    assert caller.call("POST", PODS, lost)[0] == 201
    caller.call("DELETE", f"{PODS}/lost?gracePeriodSeconds=0")
    (told,) = messages(findings(running, 1), "books", "warn")
    assert "node gone still holds what was deleted: Pod default/lost (deleted at" in told
    assert messages(findings(running, 1), "node", "fail")


def test_a_server_that_does_not_run_and_a_damaged_file_fail(running):
    running.stop()
    assert messages(findings(running, 1), "server", "fail")
    assert messages(findings(running, 1), "file", "ok")
    flip_a_bit(running.file)
    (told,) = messages(findings(running, 1), "file", "fail")
    assert str(running.file) in told


def flip_a_bit(path: Path) -> None:
    """In the text of an object."""
    content = bytearray(path.read_bytes())
    place = content.index(b"sleeper")
    content[place] ^= 1
    path.write_bytes(content)
