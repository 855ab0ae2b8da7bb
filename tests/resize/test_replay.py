"""`headrace simulate resize`: a trace through a policy, with the decisions that the server would make."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.simulate import simulate

EXAMPLE = Path(__file__).parents[2] / "examples" / "resize" / "policy.yaml"


def replayed(tmp_path, lines, *options, policy=EXAMPLE):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = CliRunner().invoke(simulate, ["resize", "--policy", str(policy), "--trace", str(trace), *options])
    return done, [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]


def test_a_burst_grows_at_once_and_is_taken_back_after_the_window(tmp_path):
    trace = [{"at": at, "cpu": "950m" if 10 < at < 60 else "100m", "memory": "32Mi"} for at in range(400)]
    done, told = replayed(tmp_path, trace)
    assert done.exit_code == 0
    assert [(each["at"], each["direction"], each["to"]) for each in told if "direction" in each] == [
        (13, "up", {"cpu": "2"}),
        (313, "down", {"cpu": "1188m"}),  # the peak of the window still needs it
    ]


def test_a_square_wave_and_steady_noise_do_not_oscillate(tmp_path):
    wave = [{"at": at, "cpu": "950m" if at // 30 % 2 else "200m", "memory": "200Mi"} for at in range(600)]
    assert len(replayed(tmp_path, wave)[1]) <= 2
    noise = [{"at": at, "cpu": "900m" if at % 2 else "800m", "memory": "200Mi"} for at in range(600)]
    assert len([each for each in replayed(tmp_path, noise)[1] if "direction" in each]) <= 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"at": "x"}, "line 1: at must be a number, not 'x'"),
        ({"at": 1, "cpu": "fast"}, "line 1: cpu 'fast'"),
        ({"at": 1, "latency": "slow"}, "line 1: latency must be a number"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, words):
    done, _ = replayed(tmp_path, [line])
    assert done.exit_code == 1
    assert words in done.output


def test_a_policy_that_the_server_would_refuse_is_refused(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(EXAMPLE.read_text().replace('cpu: "4"', "cpu: many"))
    done, _ = replayed(tmp_path, [], policy=policy)
    assert done.exit_code == 1
    assert "spec.max.cpu: Invalid value" in done.output
