"""Names made of other names."""

import pytest

from headrace.api.objects import marked_name


@pytest.mark.parametrize(
    ("text", "made"),
    [
        pytest.param("web", "web-5f3a", id="a short one"),
        pytest.param("a" * 248, "a" * 248 + "-5f3a", id="as long as fits"),
        pytest.param("a" * 253, "a" * 248 + "-5f3a", id="one that is cut"),
        pytest.param("a" * 247 + ".web", "a" * 247 + "-5f3a", id="one that is cut behind a dot"),
    ],
)
def test_a_marked_name_is_a_name(text: str, made: str) -> None:
    assert marked_name(text, "5f3a") == made
