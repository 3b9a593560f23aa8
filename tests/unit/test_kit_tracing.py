"""W3C trace context: made, recognised, in use inside a block and gone after it."""

from __future__ import annotations

import asyncio

import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from limpet.kit import tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
MALFORMED = [
    "",
    "nonsense",
    f"00-{TRACE}-b7ad6b7169203331",
    f"00-{TRACE[:-1]}-b7ad6b7169203331-01",
    f"00-{'z' * 32}-b7ad6b7169203331-01",
    f"00-{'0' * 32}-b7ad6b7169203331-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE}-b7ad6b7169203331-01\n",
]


def test_a_new_context_is_well_formed_and_its_own() -> None:
    made = [tracing.new_traceparent(sampled=True) for _ in range(100)]
    ids = {tracing.trace_id_of(one) for one in made}
    assert len(ids) == 100
    assert "" not in ids


def test_a_context_of_a_known_trace_has_a_new_span() -> None:
    first, second = (tracing.make_traceparent(TRACE, sampled=False) for _ in range(2))
    assert first != second
    assert tracing.trace_id_of(first) == tracing.trace_id_of(second) == TRACE


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("10", False), ("0b", True)]
)
def test_the_last_bit_of_the_flags_says_whether_a_trace_is_sampled(flags: str, sampled: bool) -> None:
    assert tracing.is_sampled(PARENT[:-2] + flags) is sampled


def test_what_is_made_sampled_is_sampled() -> None:
    assert tracing.is_sampled(tracing.new_traceparent(sampled=True))
    assert not tracing.is_sampled(tracing.new_traceparent(sampled=False))
    assert not tracing.is_sampled("")


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_context_is_no_context(text: str) -> None:
    assert tracing.trace_id_of(text) == ""
    assert not tracing.is_sampled(text)
    with tracing.use(text), capture_logs(processors=[merge_contextvars]) as lines:
        structlog.get_logger().info("inside")
        assert tracing.current() == ""
    assert "trace_id" not in lines[0]


def test_calls_and_log_lines_inside_belong_to_the_trace_and_those_after_do_not() -> None:
    with capture_logs(processors=[merge_contextvars]) as lines:
        with tracing.use(PARENT):
            structlog.get_logger().info("inside")
            assert tracing.trace_id_of(tracing.current()) == TRACE
            assert tracing.client_metadata() == ((tracing.HEADER, tracing.current()),)
        structlog.get_logger().info("after")
    assert tracing.current() == ""
    assert tracing.client_metadata() == ()
    assert [line.get("trace_id") for line in lines] == [TRACE, None]


async def test_two_tasks_at_the_same_time_keep_their_own_traces() -> None:
    async def seen(traceparent: str) -> str:
        with tracing.use(traceparent):
            await asyncio.sleep(0)
            return tracing.trace_id_of(tracing.current())

    parents = [tracing.new_traceparent(sampled=True) for _ in range(20)]
    assert await asyncio.gather(*map(seen, parents)) == [tracing.trace_id_of(one) for one in parents]
