"""Runs Kubernetes' own tables and keeps them with their answers, where the ordinary tests find them.

python -m tests.devices.allocate.tables.record
"""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.cel.tables.expressions import RECORDED as EXPRESSIONS
from tests.cel.tables.expressions import fresh_expressions
from tests.devices.allocate.tables.cases import RECORDED as CASES
from tests.devices.allocate.tables.cases import fresh_cases


def keep(lines: list[dict[str, Any]], path: Path) -> None:
    text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    keep(fresh_cases(), CASES)
    keep(fresh_expressions(), EXPRESSIONS)
