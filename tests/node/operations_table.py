"""The measured tables of docs/reference/resize-operations.md, as tests compare them with what they see."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/resize-operations.md"


def column(table: str, name: str) -> dict[str, str]:
    """The cells of column `name` by the row's first cell, of the table that follows `<!-- table -->`."""
    after = PAGE.read_text(encoding="utf-8").split(f"<!-- {table} -->\n", 1)[1]
    lines = after.split("\n\n", 1)[0].strip().splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
    return {row[0]: row[head.index(name)] for row in rows}
