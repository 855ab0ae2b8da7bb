"""The composition root: the one place that puts parts together into the processes that run."""

import sys

if "rich" not in sys.modules:
    # structlog takes rich for coloured tracebacks if it finds it, which costs every process that runs here 6 MB and a
    # tenth of a second; this is how Python spells that a module is not there.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401

    del sys.modules["rich"]
