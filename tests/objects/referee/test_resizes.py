"""The recorded answers to resizes are still those of the real API server."""

import pytest

from tests.objects import resizes
from tests.objects.referee.samples import Servers

pytestmark = pytest.mark.cluster


async def test_the_recorded_answers_to_resizes_are_those_of_kubernetes(servers: Servers) -> None:
    for number, row in enumerate(resizes.rows()):
        assert await resizes.answers(servers.theirs, row, f"pod-{number}") == row["answers"], row["name"]
