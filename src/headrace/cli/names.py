"""What is said of a name that is not there: those that are, the likeliest first, and no more than people read."""

from collections.abc import Iterable

MOST = 10


def missing(what: str, given: str, there: Iterable[str]) -> str:
    """`node "nod-a" not found; there are: node-a, node-b and 40 more`."""
    import difflib

    known = sorted(there)
    shown = list(dict.fromkeys((*difflib.get_close_matches(given, known, MOST), *known)))[:MOST]
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f'{what} "{given}" not found; there are: {", ".join(shown) or "none"}{more}'
