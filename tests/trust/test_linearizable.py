"""Histories of 8 callers on 4 objects, with kill -9 of the real server in between, are linearizable, says porcupine."""

import copy
import random
import time

import pytest

from tests.trust.history import History, build_judge, out_of_order, verdict
from tests.trust.servers import directory_of_server

pytestmark = pytest.mark.trust

HISTORIES = 20
OPERATIONS = 5_000
KILLS = 2


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    return build_judge(tmp_path_factory.mktemp("judge"))


def recorded(server, seed: int, operations: int, kills: int) -> list[dict]:
    """A history with the server killed `kills` times, at random places."""
    server.start()
    history = History(server, seed, operations)
    places = sorted(random.Random(seed).random() * 0.9 for _ in range(kills))
    history.start()
    for place in places:
        while history.done < place:
            time.sleep(0.005)
        history.serving.clear()
        server.kill()
        server.start()
        history.serving.set()
    history.join()
    return history.operations


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history_with_kills_is_linearizable(tmp_path, judge, seed):
    with directory_of_server(tmp_path / "data") as server:
        operations = recorded(server, seed, OPERATIONS, KILLS)
    unanswered = sum(not each["returned"] for each in operations)
    assert len(operations) == OPERATIONS
    assert verdict(judge, operations, tmp_path / "history.jsonl") == "Ok"
    assert out_of_order(operations) == []
    print(f"\nhistory {seed}: {len(operations)} operations, {KILLS} kills, {unanswered} without an answer: Ok")


@pytest.fixture(scope="module")
def calm(tmp_path_factory, judge):
    """A history without kills, that is Ok."""
    folder = tmp_path_factory.mktemp("calm")
    with directory_of_server(folder / "data") as server:
        operations = recorded(server, seed=99, operations=800, kills=0)
    assert verdict(judge, operations, folder / "history.jsonl") == "Ok"
    return operations


def test_control_a_stale_read_is_illegal(tmp_path, judge, calm):
    wrong = copy.deepcopy(calm)
    read = [each for each in wrong if each["verb"] == "get" and each["code"] == 200]
    later = read[-1]
    earlier = next(each for each in read if each["key"] == later["key"] and each["revision"] < later["revision"])
    later["got"], later["revision"] = earlier["got"], earlier["revision"]
    assert verdict(judge, wrong, tmp_path / "history.jsonl") == "Illegal"


def test_control_a_conflict_told_as_success_is_illegal(tmp_path, judge, calm):
    wrong = copy.deepcopy(calm)
    # One whose revision had been replaced, and answered so, before it was called: no order can make it succeed, while
    # two that were under way together might have come in the other order.
    conflict = next(
        each
        for each in wrong
        if (each["verb"], each["code"]) == ("put", 409)
        and any(
            (other["key"], other["verb"], other["code"]) == (each["key"], "put", 200)
            and other["revision"] > each["expected"]
            and 0 < other["returned"] < each["called"]
            for other in wrong
        )
    )
    conflict["code"], conflict["revision"], conflict["got"] = 200, conflict["expected"] + 1, conflict["text"]
    assert verdict(judge, wrong, tmp_path / "history.jsonl") == "Illegal"


def test_control_a_lost_write_is_illegal(tmp_path, judge, calm):
    """One that was answered, but that later reads never show: its answer is moved to another text."""
    wrong = copy.deepcopy(calm)
    seen = {each["got"] for each in wrong if each["verb"] == "get"}
    write = next(
        e for e in wrong if e["verb"] == "put" and e["code"] == 200 and e["text"] in seen and not e["expected"]
    )
    write["text"] = write["got"] = "never seen"
    assert verdict(judge, wrong, tmp_path / "history.jsonl") == "Illegal"


def test_control_a_revision_that_goes_back_is_noticed(calm):
    wrong = copy.deepcopy(calm)
    last = max((each for each in wrong if each["verb"] == "put" and each["code"] == 200), key=lambda e: e["called"])
    last["revision"] = 3
    assert out_of_order(wrong) != []
