"""`headrace simulate`: one flushed answer a line, at once; what is no case is told by its line."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
HEADRACE = [sys.executable, "-m", "headrace.cli"]
SHOWN = 40


def read(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def without_share_ids(value):
    if isinstance(value, dict):
        return {key: without_share_ids(each) for key, each in value.items() if key != "shareID"}
    return [without_share_ids(each) for each in value] if isinstance(value, list) else value


def test_allocation_cases_are_answered_in_order_with_kubernetes_answers():
    cases = read(TESTS / "devices/data/allocate.jsonl.gz")[::SHOWN]
    text = "".join(json.dumps(each) + "\n" for each in cases)
    done = subprocess.run([*HEADRACE, "simulate", "allocate"], input=text, capture_output=True, text=True, check=True)
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        expected = {key: value for key, value in case["expect"].items() if key not in ("steps", "celError")}
        assert without_share_ids(json.loads(line)) == without_share_ids({"name": case["name"], **expected})


def test_an_answer_comes_before_the_next_case_is_asked():
    case = read(TESTS / "devices/data/allocate.jsonl.gz")[0]
    with subprocess.Popen(
        [*HEADRACE, "simulate", "allocate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        for _ in range(3):
            process.stdin.write(json.dumps(case).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["name"] == case["name"]
        process.stdin.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{nonsense\n", "line 1: not JSON", id="no JSON"),
        pytest.param("[1]\n", "line 1: a case is a JSON object", id="no object"),
    ],
)
def test_what_is_no_case_is_told_by_its_line(text, words):
    done = subprocess.run([*HEADRACE, "simulate", "allocate"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path):
    command = [*HEADRACE, "simulate", "allocate", "--cases", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No such file" in done.stderr
