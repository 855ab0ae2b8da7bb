"""`headrace simulate`: one flushed answer a line, at once; what is no case is told by its line."""

import gzip
import json
import re
import shlex
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
        pytest.param('{"nodes": 5}\n', "nodes of a case must be a list of objects, not 5", id="nodes that are none"),
        pytest.param(
            '{"name": "one", "slices": [{"spec": 5}]}\n', "case 'one': not objects as", id="a slice that is none"
        ),
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


def printed(place: Path) -> list[tuple[list[str], str]]:
    """The commands of the reference that need no server, and what is typed into them."""
    found = re.findall(r"^headrace (simulate .*?) <<END\n(.*?)^END$", place.read_text(), re.M | re.S)
    return [(shlex.split(command), text) for command, text in found]


def test_the_references_commands_answer_as_it_says(tmp_path):
    slices = {"kind": "List", "items": [{"kind": "ResourceSlice", "spec": SLICE}]}
    (tmp_path / "devices.json").write_text(json.dumps(slices))
    (tmp_path / "examples").symlink_to(TESTS.parent / "examples")
    answers = {}
    for command, text in printed(TESTS.parent / "docs/reference/simulate.md"):
        done = subprocess.run(
            [*HEADRACE, *command], input=text, capture_output=True, text=True, check=True, cwd=tmp_path
        )
        answers[command[1]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["to"] for each in answers["resize"]] == [{"cpu": "2"}]
    assert [each["results"] for each in answers["cel"]] == [{"node-a/gpu-0": True}, {"node-a/gpu-0": True}]
    assert [each["outcome"] for each in answers["allocate"]] == ["allocated"]


SLICE = {
    "driver": "gpu.example.com",
    "pool": {"name": "node-a"},
    "devices": [{"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}],
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param('{"id": "1", "expr": "device.foo"}', "undefined field 'foo'", id="an expression that is refused"),
        pytest.param('{"id": "1"}', 'a case needs "expr"', id="no expression"),
    ],
)
def test_what_is_wrong_with_a_selector_is_said(tmp_path, text, words):
    (tmp_path / "devices.json").write_text(json.dumps({"gpu-0": {"driver": "gpu.example.com"}}))
    command = [*HEADRACE, "simulate", "cel", "--devices", str(tmp_path / "devices.json")]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("--trace", "/nowhere"), "--trace /nowhere: No such file", id="a trace that is not there"),
        pytest.param(("--limits", "cpus=1"), "'cpus': a policy changes cpu and memory", id="no resource"),
    ],
)
def test_an_option_that_cannot_be_followed_is_named(options, words):
    policy = str(TESTS.parent / "examples/resize/policy.yaml")
    command = [*HEADRACE, "simulate", "resize", "--policy", policy, *options]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("hello", "-: line 3: not JSON", id="no JSON"),
        pytest.param("5", "-: line 3: a reading is a JSON object, not b'5", id="no object"),
    ],
)
def test_a_reading_that_is_none_is_told_with_its_line(line, words):
    policy = str(TESTS.parent / "examples/resize/policy.yaml")
    trace = f'{{"at": 1, "cpu": "850m"}}\n\n{line}\n'
    command = [*HEADRACE, "simulate", "resize", "--policy", policy]
    done = subprocess.run(command, input=trace, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
