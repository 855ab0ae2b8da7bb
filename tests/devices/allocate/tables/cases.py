"""Kubernetes' own table of allocator tests (v0.37.2), one case for each allocator that knows the features it needs."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.devices.allocate.tables.module import written_table

HERE = Path(__file__).parent
RECORDED = HERE.parents[1] / "data" / "kubernetes-table.jsonl.gz"


def recorded_cases() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt") as lines:
        return [json.loads(line) for line in lines]


def fresh_cases() -> list[dict[str, Any]]:
    return written_table("structured", HERE / "headrace_test.go")
