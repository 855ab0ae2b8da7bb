"""A name that is not there is told with those that are."""

import pytest

from headrace.cli.names import missing


@pytest.mark.parametrize(
    ("given", "there", "told"),
    [
        pytest.param("a", [], "none", id="nothing there"),
        pytest.param("c", ["b", "a"], "a, b", id="a few, in order"),
        pytest.param("node-z", ["abc", "node-y"], "node-y, abc", id="the likeliest first"),
        pytest.param(
            "x",
            [f"n{number:02}" for number in range(40)],
            f"{', '.join(f'n{each:02}' for each in range(10))} and 30 more",
            id="no more than people read",
        ),
    ],
)
def test_what_is_there_is_told(given: str, there: list[str], told: str) -> None:
    assert missing("node", given, there) == f'node "{given}" not found; there are: {told}'
