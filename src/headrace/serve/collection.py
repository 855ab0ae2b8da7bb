"""How the garbage collector runs in a process that serves: seldom, and never over what was there at its start."""

import gc

YOUNG_OBJECTS = 20_000
YOUNG_RUNS = 20
OLD_RUNS = 50


def settle() -> None:
    """Call once everything is put together: schemas and code stay for ever, so no later collection looks at them.

    A list answer alone makes thousands of objects, none of them in a cycle; with Python's threshold of 700 the
    collector took a fifth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_RUNS, OLD_RUNS)
