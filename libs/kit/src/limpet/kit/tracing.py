"""W3C trace context: one trace follows one task through NATS, gRPC and every log line."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

HEADER = "traceparent"
# All zeros are no id.
_WELL_FORMED = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})")
_PROPAGATOR = TraceContextTextMapPropagator()


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
    found = _WELL_FORMED.fullmatch(traceparent)
    return found is not None and int(found[2], 16) & 1 == 1


@contextmanager
def use(traceparent: str) -> Iterator[None]:
    """Log lines and outgoing calls inside belong to this trace."""
    if not trace_id_of(traceparent):
        yield
        return
    token = context.attach(_PROPAGATOR.extract({HEADER: traceparent}))
    try:
        with structlog.contextvars.bound_contextvars(trace_id=trace_id_of(traceparent)):
            yield
    finally:
        context.detach(token)


def current() -> str:
    """The traceparent of the trace that is in use, or nothing."""
    carrier: dict[str, str] = {}
    if trace.get_current_span().get_span_context().is_valid:
        _PROPAGATOR.inject(carrier)
    return carrier.get(HEADER, "")


def client_metadata() -> tuple[tuple[str, str], ...]:
    """gRPC metadata that carries the trace on."""
    traceparent = current()
    return ((HEADER, traceparent),) if traceparent else ()
