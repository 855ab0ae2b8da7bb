"""Rules of the house that a reader would otherwise have to check by hand."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for path in (ROOT / "src").rglob("*.py") if "generated" not in path.parts)
WRITTEN = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "tools").rglob("*.py"))]
EVERYTHING_SAYS_NOTHING = {"utils", "helpers", "common", "misc"}


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_at_most_600_lines(path: Path):
    assert len(path.read_text().splitlines()) <= 600


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_opens_with_what_it_is(path: Path):
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "say in a sentence or two what this module is"


def test_no_module_has_a_name_that_says_nothing():
    assert [path for path in WRITTEN if EVERYTHING_SAYS_NOTHING & {path.stem, *path.relative_to(ROOT).parts}] == []
