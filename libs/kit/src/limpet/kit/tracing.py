"""W3C trace context: one trace follows one task through NATS, gRPC and every log line."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from structlog.contextvars import bind_contextvars, reset_contextvars

HEADER = "traceparent"
# All zeros are no id.
_WELL_FORMED = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})")
_CURRENT: ContextVar[str] = ContextVar("traceparent", default="")


def make_traceparent(trace_id: str, *, sampled: bool) -> str:
    """A traceparent of a known trace (32 hex digits) with a new span id."""
    return f"00-{trace_id}-{secrets.token_hex(8)}-{'01' if sampled else '00'}"


def new_traceparent(*, sampled: bool) -> str:
    return make_traceparent(secrets.token_hex(16), sampled=sampled)


def trace_id_of(traceparent: str) -> str:
    """The 32 hex digits, or nothing when there is no well-formed context."""
    found = _WELL_FORMED.fullmatch(traceparent)
    return found[1] if found else ""


def is_sampled(traceparent: str) -> bool:
    # Nearly all are not, and this is asked of each.
    if traceparent.endswith("-00"):
        return False
    found = _WELL_FORMED.fullmatch(traceparent)
    return found is not None and int(found[2], 16) & 1 == 1


@contextmanager
def use(traceparent: str) -> Iterator[None]:
    """Log lines and outgoing calls inside belong to this trace."""
    trace_id = trace_id_of(traceparent)
    if not trace_id:
        yield
        return
    token = _CURRENT.set(traceparent)
    bound = bind_contextvars(trace_id=trace_id)
    try:
        yield
    finally:
        reset_contextvars(**bound)
        _CURRENT.reset(token)


def current() -> str:
    """The traceparent of the trace that is in use, or nothing."""
    return _CURRENT.get()


def client_metadata() -> tuple[tuple[str, str], ...]:
    """gRPC metadata that carries the trace on."""
    traceparent = current()
    return ((HEADER, traceparent),) if traceparent else ()
