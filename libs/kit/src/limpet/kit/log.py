"""Structured logs: JSON lines on standard error, with service and trace id."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor


def _dump(event: Any, **_: Any) -> str:
    return orjson.dumps(event, default=str).decode()


def setup_logging(service: str, level: str) -> None:
    """Called once, first thing in main."""
    facts: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[Processor] = [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_dump),
    ]
    structlog.configure(
        processors=[*facts, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    # Libraries log through the standard module; only their trouble is worth a line.
    libraries = logging.StreamHandler(sys.stderr)
    libraries.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[*facts, structlog.stdlib.add_logger_name],
            processors=[ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[libraries])
