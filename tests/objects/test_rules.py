"""Our server's answers to definitions and objects with rules: the same as kube-apiserver's, word for word."""

from pathlib import Path

from tests.apiserver.serving import serving
from tests.objects import rules


async def test_what_rules_say_is_what_kubernetes_says(tmp_path: Path) -> None:
    differences = []
    async with serving(tmp_path) as server, server.http() as client:
        for number, case in enumerate(rules.cases()):
            said = await rules.answers(client, case, f"case-{number}.rules.example.com")
            wanted = {"definition": case["definition"], "writes": case["answers"]}
            if said != wanted:
                differences.append((case["name"], said, wanted))
    assert differences == []
