"""Our server's answers to definitions and objects with rules: the same as kube-apiserver's, word for word."""

from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.serving import serving
from tests.objects import rules


@pytest.mark.parametrize("case", rules.cases(), ids=lambda case: case["name"])
async def test_what_rules_say_is_what_kubernetes_says(case: dict[str, Any], tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.http() as client:
        assert await rules.answers(client, case) == {"definition": case["definition"], "writes": case["answers"]}
