"""The demo's own parts: it ends with 1 when something is not as it should be, and its shop is a real one."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.demo import steps
from headrace.cli.demo.shop import service
from headrace.cli.demo.stage import Stage, StepFailed
from headrace.cli.main import root

ANSWER_SECONDS = 30.0


@pytest.mark.parametrize(
    ("step", "words"),
    [
        pytest.param(lambda stage: stage.check("water flows uphill", False), "water flows uphill", id="a false check"),
        pytest.param(lambda stage: stage.wait_for("it rains", lambda: 0, 0.1), "it rains: not so after", id="in vain"),
        pytest.param(lambda stage: stage.headrace("get", "pods"), "no server found", id="a command that fails"),
    ],
)
def test_a_step_that_is_not_as_it_should_be_ends_the_demo_with_1(monkeypatch, step, words):
    monkeypatch.setattr(steps, "STEPS", (("first", step), ("second", lambda stage: stage.say("never reached"))))
    told = CliRunner().invoke(root, ["demo", "--no-kubectl"])
    assert told.exit_code == 1
    assert words in told.output
    assert "never reached" not in told.output
    assert "checks passed" not in told.output


def test_what_must_be_refused_and_is_not_ends_it_too(tmp_path):
    stage = Stage(tmp_path, lambda line: None, kubectl=None)
    assert "no server found" in stage.refused("get", "pods")
    with pytest.raises(StepFailed, match="was to be refused, and was not"):
        stage.refused("down")


# The shop


@pytest.fixture
def shop():
    """A running shop: its process and its place."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = free.getsockname()
    command = [sys.executable, "-I", "-S", str(Path(service.__file__)), place[0], str(place[1])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert "open on" in process.stdout.readline()
        yield process, place
    finally:
        process.kill()
        process.communicate()


def asked(place, head="POST /orders HTTP/1.1\r\n\r\n"):
    visitor = socket.create_connection(place, timeout=ANSWER_SECONDS)
    visitor.sendall(head.encode())
    return visitor


def answer(visitor):
    with visitor:
        return b"".join(iter(lambda: visitor.recv(4096), b"")).decode()


def latency(place):
    return float(answer(asked(place, "GET /metrics HTTP/1.1\r\n\r\n")).split()[-1])


def test_an_order_costs_cpu_time_and_its_latency_counts_from_when_the_visitor_asked(shop):
    process, place = shop
    assert latency(place) == 0
    before = _cpu_ticks(process.pid)
    for _ in range(20):
        assert "200 OK" in answer(asked(place))
    assert latency(place) < 10_000
    assert _cpu_ticks(process.pid) - before >= 20 * service.ORDER_CPU_SECONDS * os.sysconf("SC_CLK_TCK") - 1
    asked_before = f"POST /orders HTTP/1.1\r\nX-Request-Start: {time.time() - 60:.3f}\r\n\r\n"
    for _ in range(21):
        answer(asked(place, asked_before))
    assert latency(place) >= 60_000


def test_beyond_its_waiting_room_visitors_are_turned_away_and_a_silent_one_keeps_nobody(shop):
    process, place = shop
    os.kill(process.pid, signal.SIGSTOP)
    silent = socket.create_connection(place, timeout=ANSWER_SECONDS)
    visitors = [asked(place) for _ in range(service.WAITING_ROOM + 3)]
    os.kill(process.pid, signal.SIGCONT)
    answers = [answer(each) for each in visitors]
    assert sum("200 OK" in each for each in answers) == service.WAITING_ROOM
    assert sum("503" in each for each in answers) == 3
    with silent, contextlib.suppress(ConnectionResetError):
        assert silent.recv(1) == b""


def test_visitors_come_at_their_rate_whether_or_not_they_are_served():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = Path(service.__file__).with_name("visitors.py")
        place = listener.getsockname()
        command = [sys.executable, "-I", "-S", str(program), place[0], str(place[1]), "50"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        heads = []
        try:
            while len(heads) < 3:
                assert select.select([listener], [], [], ANSWER_SECONDS)[0], "nobody comes"
                visitor, _ = listener.accept()
                heads.append((visitor, visitor.recv(4096).decode()))
        finally:
            process.kill()
            process.communicate()
            for visitor, _ in heads:
                visitor.close()
    assert all(head.startswith("POST /orders ") and "X-Request-Start: " in head for _, head in heads)


def _cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
