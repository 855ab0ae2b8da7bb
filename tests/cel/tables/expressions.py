"""Kubernetes' own tables of expressions over devices (v0.37.2): selectors, and (`derived`) derived attributes."""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.devices.allocate.tables.module import written_table

HERE = Path(__file__).parent
RECORDED = HERE.parent / "data" / "kubernetes-table.jsonl.gz"
_NOTED = {
    "\t\t\tcompiler := GetCompiler(Features{\n\t\t\t\tEnableListTypeAttributes: tc.listTypeAttributesEnabled,": (
        "\t\t\tnoteDerived(t, tc.name, tc.expression, Device{})"
    ),
    "\t\t\tattr, _, err := result.EvaluateDerivedAttribute(context.Background(), tc.device)": (
        "\t\t\tnoteDerived(t, tc.name, tc.expression, tc.device)"
    ),
}


def recorded_expressions() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt") as lines:
        return [json.loads(line) for line in lines]


def fresh_expressions() -> list[dict[str, Any]]:
    return written_table("cel", HERE / "headrace_test.go", _NOTED)
