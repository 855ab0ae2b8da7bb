"""What a resize of a Pod may change, and what a Pod may ask for as a whole: kube-apiserver's recorded answers."""

from pathlib import Path

from tests.apiserver.serving import serving
from tests.objects import resizes


async def test_the_answers_to_resizes_are_those_of_kubernetes(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, server.http() as client:
        for number, row in enumerate(resizes.rows()):
            assert await resizes.answers(client, row, f"pod-{number}") == row["answers"], row["name"]
