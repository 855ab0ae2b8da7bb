"""Structured logs of long-running processes: one line an event, for people on a terminal and as JSON otherwise."""

import sys

import structlog
from structlog.typing import FilteringBoundLogger, Processor

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def log_to(stream: "object" = None, level: str = "info") -> FilteringBoundLogger:
    """A logger to this stream (standard error by default)."""
    out = sys.stderr if stream is None else stream
    readable = bool(getattr(out, "isatty", lambda: False)())
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if readable:
        processors.append(structlog.dev.ConsoleRenderer())
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(out),  # type: ignore[arg-type]  # any text stream
        cache_logger_on_first_use=True,
    )
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger
