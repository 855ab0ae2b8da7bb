"""Fresh random patches, applied by Kubernetes' own libraries and by ours: every answer must be the same.

Needs Go and the module proxy. HEADRACE_PATCHES says how many (default 5000), HEADRACE_PATCHES_SEED which ones.
"""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.api.kinds import DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, POD, RESOURCE_CLAIM
from headrace.api.patches import BadPatch, apply_json, merge
from headrace.api.patches_strategic import apply
from headrace.objects import schemas
from tests.api.patch_generator import Generator

pytestmark = pytest.mark.slow_reference

SOURCES = Path(__file__).parent / "reference"
COUNT = int(os.environ.get("HEADRACE_PATCHES", "5000"))
SEED = int(os.environ.get("HEADRACE_PATCHES_SEED", "1"))
NAMES = {kind.kind: schemas.name_of_kind(kind) for kind in (DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, POD, RESOURCE_CLAIM)}


@pytest.fixture(scope="module")
def reference() -> Path:
    """The reference program, built once for each state of its sources, outside the tree."""
    go = shutil.which("go")
    if go is None:
        pytest.fail("the reference is built with Go 1.26, which is not on PATH")
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")))
    program = Path.home() / ".cache" / "headrace" / f"patch-reference-{digest.hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CGO_ENABLED": "0"}
        subprocess.run([go, "build", "-trimpath", "-o", program, "."], cwd=SOURCES, check=True, env=environment)
    return program


def ours(case: dict[str, Any]) -> dict[str, Any]:
    try:
        match case["type"]:
            case "merge":
                return {"result": merge(case["object"], case["patch"])}
            case "json":
                return {"result": apply_json(case["object"], case["patch"])}
        schema = schemas.bare()[NAMES[case["kind"]]]
        return {"result": apply(case["object"], case["patch"], schema, schemas.resolve)}
    except BadPatch as error:
        return {"error": str(error)}


def test_every_answer_is_that_of_the_library(reference: Path) -> None:
    generator = Generator(SEED)
    cases = [generator.case() for _ in range(COUNT)]
    lines = "".join(json.dumps(each) + "\n" for each in cases)
    done = subprocess.run([reference], input=lines, capture_output=True, text=True, check=True)
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    different = []
    for case, expected in zip(cases, theirs, strict=True):
        answer = ours(case)
        same = answer == expected if "result" in expected else "error" in answer
        if not same:
            different.append({**case, "ours": answer, "theirs": expected})
    refused = sum("error" in each for each in theirs)
    assert COUNT // 20 < refused < COUNT // 2, f"{refused} of {COUNT} refused: the patches are too wild or too tame"
    assert not different, f"{len(different)} of {COUNT} differ; the first: {json.dumps(different[0])}"
