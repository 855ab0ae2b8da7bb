"""Fresh random selectors, judged by Kubernetes' own compiler and by ours: every answer must be the same.

Needs Go and the module proxy. HEADRACE_CEL_EXPRESSIONS says how many (default 2000), HEADRACE_CEL_SEED which ones.
"""

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.cel import closures, counting
from headrace.cel.answers import answer, prepare_devices
from headrace.cel.device import ENVIRONMENTS, compile_selector, prepare_device
from headrace.cel.errors import CompileError, EvaluationError
from headrace.cel.values import Value, is_map
from tests.cel.generator import Generator
from tests.cel.texts import Texts

pytestmark = pytest.mark.slow_reference

SOURCES = Path(__file__).parent / "reference"
BATCH = 500
VERDICTS = ("compile_new", "compile_new_list_attrs", "compile_stored")


@pytest.fixture(scope="module")
def reference() -> Path:
    """The reference program, built once per version of its sources, outside the tree."""
    go = shutil.which("go")
    if go is None:
        pytest.fail("the reference is built with Go 1.26, which is not on PATH")
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")))
    program = Path.home() / ".cache" / "headrace" / f"cel-reference-{digest.hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([go, "build", "-o", program, "."], cwd=SOURCES, check=True)
    return program


def judged(program: Path, devices: dict[str, Any], cases: list[dict[str, str]]) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(each) for each in [devices, *cases]) + "\n"
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Walks:
    """Notes whether anything went over a map of several keys: Go does that in random order."""

    def __init__(self) -> None:
        self.seen = False

    def entries(self, over: Value, pairs: bool) -> Any:
        self.seen = self.seen or (is_map(over) and len(over) > 1)
        return _entries(over, pairs)


_entries = counting.entries


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Walks]:
    walks = Walks()
    with monkeypatch.context() as patch:
        for module in (counting, closures):
            patch.setattr(module, "entries", walks.entries)
        yield walks


def differences(case: dict[str, str], wanted: dict[str, Any], prepared: Any, walks: Walks) -> list[str]:
    walks.seen = False
    found = answer(case, prepared)
    compared = list(VERDICTS)
    if wanted["compile_stored"]:
        compared += ["output_type", "max_cost"] + ([] if walks.seen else ["results", "actual_cost"])
    return [f"{name}: {found[name]} for {wanted[name]}" for name in compared if found[name] != wanted[name]]


def test_random_selectors_are_judged_as_kubernetes_judges_them(
    reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = int(os.environ.get("HEADRACE_CEL_EXPRESSIONS", "2000"))
    seed = int(os.environ.get("HEADRACE_CEL_SEED", str(random.SystemRandom().randrange(2**32))))
    wrong: list[str] = []
    with watched(monkeypatch) as walks:
        for begin in range(0, count, BATCH):
            generator = Generator(seed + begin)
            devices = {f"device-{number}": generator.device() for number in range(4)}
            prepared = prepare_devices(devices)
            cases = [{"id": str(number), "expr": generator.expression()} for number in range(min(BATCH, count - begin))]
            for case, wanted in zip(cases, judged(reference, devices, cases), strict=True):
                if "panic" in wanted:
                    continue
                wrong += [f"{case['expr']}\n    {each}" for each in differences(case, wanted, prepared, walks)]
    assert not wrong, f"seed {seed}: {len(wrong)} differences\n" + "\n".join(wrong[:20])


def test_values_are_written_as_kubernetes_writes_them(reference: Path) -> None:
    count = int(os.environ.get("HEADRACE_CEL_EXPRESSIONS", "2000"))
    seed = int(os.environ.get("HEADRACE_CEL_SEED", str(random.SystemRandom().randrange(2**32))))
    texts, prepared = Texts(seed), prepare_device("x", {}, {})
    cases = [{"id": str(number), "expr": texts.expression()} for number in range(count)]
    wrong = []
    for case, wanted in zip(cases, judged(reference, {"x": {"driver": "x"}}, cases), strict=True):
        try:
            found = str(compile_selector(case["expr"]).matches(prepared))
        except (CompileError, EvaluationError) as error:
            found = str(error)
        told = wanted.get("error_stored") or wanted.get("errors", {}).get("x")
        if found != told:
            wrong.append(f"{case['expr']}\n    {found}\n    {told}")
    assert not wrong, f"seed {seed}: {len(wrong)} differences\n" + "\n".join(wrong[:20])


def test_random_damage_is_refused_as_kubernetes_refuses_it(reference: Path) -> None:
    seed = int(os.environ.get("HEADRACE_CEL_SEED", str(random.SystemRandom().randrange(2**32))))
    damage, generator = random.Random(seed), Generator(seed)
    cases = []
    for number in range(BATCH):
        text = generator.expression()
        at = damage.randrange(len(text))
        with_more = text[:at] + damage.choice("()[]{}.,\"'+-?:!&|x1 \n\\") + text[at:]
        cases.append({"id": str(number), "expr": damage.choice([text[:at] + text[at + 1 :], with_more])})
    wrong = []
    for case, wanted in zip(cases, judged(reference, {}, cases), strict=True):
        try:
            compile_selector(case["expr"])
            detail = ""
        except CompileError as error:
            detail = error.detail
        told = wanted.get("error_stored", "")
        worded_by_us = "Syntax error" in told or "regexp" in told
        if "panic" not in wanted and (bool(detail) != bool(told) or (not worded_by_us and detail != told)):
            wrong.append(f"{case['expr']}\n    {detail}\n    {told}")
    assert not wrong, f"seed {seed}: {len(wrong)} differences\n" + "\n".join(wrong[:20])


def test_functions_are_declared_as_kubernetes_declares_them(reference: Path) -> None:
    told = json.loads(subprocess.run([reference, "declarations"], capture_output=True, text=True, check=True).stdout)
    for name, functions in told.items():
        ours = {
            function.name: [
                {
                    "id": each.id,
                    "member": each.member,
                    "arguments": [str(kind) for kind in each.arguments],
                    "result": str(each.result),
                }
                for each in function.overloads.values()
            ]
            for function in ENVIRONMENTS[name].functions.values()  # type: ignore[index]
        }
        assert ours == functions
