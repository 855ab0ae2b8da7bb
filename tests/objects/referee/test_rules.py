"""The recorded answers to rules in schemas are still those of the real API server."""

import pytest

from tests.objects import rules
from tests.objects.referee.samples import Servers

pytestmark = pytest.mark.cluster


async def test_the_recorded_answers_are_those_of_kubernetes(servers: Servers) -> None:
    for number, case in enumerate(rules.cases()):
        said = await rules.answers(servers.theirs, case, f"case-{number}.rules.example.com")
        assert said == {"definition": case["definition"], "writes": case["answers"]}, case["name"]
