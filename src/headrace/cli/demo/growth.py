"""The demo's second half: a service that slows under load grows by a policy, recovers, and is kept as it should be.

Its latency is judged against its own of before, with deadlines: how busy the machine is does not matter.
"""

import contextlib
import socket
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from headrace.api.kinds import RESOURCE_SCALING_ACTION
from headrace.cli.demo.enforced import MEBIBYTE, Enforced, limit_cpu_by_hand, limit_memory_by_hand, told
from headrace.cli.demo.looks import actual, enforced_on, event, is_running, process, status
from headrace.cli.demo.stage import Stage

PROGRAMS = Path(__file__).parent / "shop"
THRESHOLD = 300.0  # milliseconds, as shop-policy.yaml has it
SLOW_SECONDS = 60.0  # how long a step may take that depends on the machine's load
ANSWER_SECONDS = 5.0


def open_shop(stage: Stage) -> None:
    stage.say("A small shop whose orders cost CPU time. It tells its latency on a Prometheus endpoint.")
    place = _ours(stage, "shop.yaml")
    stage.apply(place)
    stage.wait_for("the shop and its visitors run", lambda: is_running(stage, "shop") and is_running(stage, "visitors"))
    usual = stage.wait_for("orders are served", lambda: _latency(stage), SLOW_SECONDS)
    found = enforced_on(stage, "shop")
    stage.say(told(found))
    stage.say(f"its usual latency is {usual:.0f} ms")
    if _slows(found):
        stage.check("50m of CPU are enforced", found.cpu_milli == 50)
    stage.check("64Mi of memory are enforced", found.memory_bytes == 64 * MEBIBYTE)


def grow(stage: Stage) -> None:
    stage.say("A policy for it, and a rush of visitors whose orders need half as much CPU again as its limit:")
    stage.apply("shop-policy.yaml")
    stage.apply(_ours(stage, "rush.yaml"))
    before = process(stage, "shop")
    if _slows(enforced_on(stage, "shop")):
        _grow_by_policy(stage)
    else:
        _grow_by_hand(stage)
    stage.wait_for("the agent has read it back", lambda: actual(stage, "shop").get("memory") == "128Mi")
    found = enforced_on(stage, "shop")
    stage.say(told(found))
    if _slows(found):
        stage.check("twice the CPU is enforced", found.cpu_milli == 100)
    stage.check("twice the memory is enforced", found.memory_bytes == 128 * MEBIBYTE)
    stage.check("no restart: the same process", process(stage, "shop") == before)


def _grow_by_policy(stage: Stage) -> None:
    action = stage.wait_for("the policy has acted", lambda: _actions(stage, "shop"), SLOW_SECONDS)[-1]
    stage.wait_for("it is done", lambda: _ended(stage, "shop"))
    cause, target = action["spec"]["cause"], action["spec"]["target"]
    stage.say(
        f"PerformanceDegraded: {stage.wait_for('it is told', lambda: event(stage, 'shop', 'PerformanceDegraded'))}"
    )
    stage.say(f"policy {cause['policy']}: {cause['message']}")
    stage.check("its latency had degraded", cause["metric"] == "latency" and cause["value"] > THRESHOLD)
    stage.check("the policy gave it twice as much", target == {"cpu": "100m", "memory": "128Mi"})
    stage.check("the resize succeeded", _ended(stage, "shop")["status"]["state"] == "Succeeded")


def _grow_by_hand(stage: Stage) -> None:
    stage.wait_for("the rush is there", lambda: is_running(stage, "rush"))
    latency = stage.wait_for("orders are served", lambda: _latency(stage), SLOW_SECONDS)
    stage.say(
        f"Without cgroups a CPU limit is whole cores: the rush does not slow it, its latency is {latency:.0f} ms."
    )
    stage.say("The policy has no reason to act; what it would do is asked for by hand:")
    shown = stage.headrace("resize", "workload", "shop", "--cpu", "100m", "--memory", "128Mi")
    stage.check("what was read back is told", "memory 128Mi read back" in shown)


def recover(stage: Stage) -> None:
    if not _slows(enforced_on(stage, "shop")):
        stage.say("Only with cgroups: here the latency has stayed as it was.")
        stage.check("visitors are served", _latency(stage) > 0)
        return
    worst = float(_actions(stage, "shop")[-1]["spec"]["cause"]["value"])
    stage.say("The rush goes on. With twice the CPU its orders are served as they come:")

    def recovered() -> float:
        latency = _latency(stage)
        return latency if latency < min(THRESHOLD, worst / 2) else 0.0

    latency = stage.wait_for("its latency has recovered", recovered, SLOW_SECONDS)
    stage.say(f"latency {worst:.0f} ms before, {latency:.0f} ms now")
    stage.check("it is below the threshold, and less than half of what it was", latency < min(THRESHOLD, worst / 2))


def shortage(stage: Stage) -> None:
    stage.say("What a node has is never promised twice. A node on paper with 8 CPUs: one reserved, five allocated:")
    stage.apply("edge-box.yaml")
    stage.headrace("capacity", "edge-box")
    stage.say("workload-b has 3 and wants 3 more:")
    words = stage.refused("resize", "workload", "workload-b", "--cpu", "6")
    stage.check(
        "it is refused: 8 total - 5 allocated - 1 reserved = 2 available",
        "Insufficient CPU" in words and "3 more wanted, 2 available of 8" in words,
    )
    stage.check("what is held is as it was", "5 allocated, 2 available" in stage.quiet("capacity", "edge-box"))


def drift(stage: Stage) -> None:
    stage.say("Somebody changes a limit past headrace. The agent looks once a second here (--sync-seconds 1):")
    found, pid = enforced_on(stage, "shop"), process(stage, "shop")
    began = time.monotonic()
    if found.quota is not None:
        stage.say(f"20m of CPU written to {found.quota}")
        limit_cpu_by_hand(found.quota, 20)
    else:
        stage.say(f"96Mi set as RLIMIT_AS of process {pid}")
        limit_memory_by_hand(pid, 96 * MEBIBYTE)
    stage.wait_for("the hand edit is put right", lambda: enforced_on(stage, "shop") == found)
    stage.say(f"put right after {time.monotonic() - began:.1f} s: {told(found)}")
    words = stage.wait_for("it is told", lambda: event(stage, "shop", "ResourceDrift"))
    stage.say(f"ResourceDrift: {words}")
    stage.check("it is told as drift, with what was found", "found cpu" in words and "put back cpu" in words)
    stage.check("no restart: the same process", process(stage, "shop") == pid)


def history(stage: Stage) -> None:
    stage.say("What was done, and what was refused:")
    shown = stage.headrace("resize", "history", "shop")
    stage.check("the growth is there, with what was read back", "Succeeded" in shown and "was read back" in shown)
    shown = stage.headrace("resize", "history", "workload-b")
    stage.check("the refusal is there, with its reason", "Failed" in shown and "Insufficient CPU" in shown)


STEPS: tuple[tuple[str, Callable[[Stage], None]], ...] = (
    ("a service with few visitors", open_shop),
    ("more visitors than it can serve", grow),
    ("its latency recovers", recover),
    ("a workload that wants more than there is", shortage),
    ("a hand edit", drift),
    ("the history", history),
)


def _slows(found: Enforced) -> bool:
    """Whether a share of a CPU is enforced, as only cgroups do."""
    return found.quota is not None


def _ours(stage: Stage, name: str) -> str:
    """The manifest with this machine's Python, the place of the programs and one free port in."""
    chosen = stage.data_dir / "shop.port"
    if not chosen.exists():
        with socket.create_server(("127.0.0.1", 0)) as free:
            chosen.write_text(str(free.getsockname()[1]))
    text = (Path(__file__).parent / "manifests" / name).read_text().replace('"8080"', f'"{chosen.read_text()}"')
    text = text.replace('"python3"', f'"{sys.executable}"').replace("/opt/shop", str(PROGRAMS))
    place = stage.data_dir / name
    place.write_text(text)
    return str(place)


def _latency(stage: Stage) -> float:
    """As the shop tells it now, in milliseconds; 0 before its first order."""
    address, port = str(status(stage, "shop").get("podIP")), int((stage.data_dir / "shop.port").read_text())
    with contextlib.closing(HTTPConnection(address, port, timeout=ANSWER_SECONDS)) as line:
        try:
            line.request("GET", "/metrics")
            lines = line.getresponse().read().decode().splitlines()
        except (OSError, HTTPException):  # it has not opened yet, or is busy
            return 0.0
    return next(float(line.split()[1]) for line in lines if line.startswith("latency "))


def _actions(stage: Stage, pod: str) -> list[dict[str, Any]]:
    """Oldest first."""
    found = [each for each in stage.objects(RESOURCE_SCALING_ACTION) if each["spec"]["workload"].startswith(f"{pod}/")]
    return sorted(found, key=lambda each: str(each["metadata"]["creationTimestamp"]))


def _ended(stage: Stage, pod: str) -> dict[str, Any]:
    """Its latest action once it has ended; empty until then."""
    action = _actions(stage, pod)[-1]
    return action if (action.get("status") or {}).get("state") in ("Succeeded", "Failed") else {}
