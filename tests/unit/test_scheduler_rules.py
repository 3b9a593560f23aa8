"""The scheduler's small rules: tolerance, history, room for orders, which tasks are followed."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.contracts.events.v1.beat_pb2 import Beat
from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, FetchStarted, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit.clock import to_stamp
from limpet.scheduler.capacity import SILENT_AFTER, Capacity
from limpet.scheduler.grant import Habit
from limpet.scheduler.history import attempts_of
from limpet.scheduler.politeness import share, slot_tolerance
from limpet.scheduler.sampling import Sampler
from limpet.scheduler.store.attempts import Attempt

THEN = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
PAGE = PageFetched(
    task_id=1, attempt=2, http_status=200, response_ms=34, proxy_id=5, body_key="k", started_time=to_stamp(THEN)
)
FETCHED = Attempt(1, 2, "fetch", THEN, "fetched", http_status=200, response_ms=34, proxy_id=5, page_key="k")


@pytest.mark.parametrize(
    ("delay", "tolerance"), [(0.0, 0.0), (-1.0, 0.0), (0.01, 0.01), (0.5, 0.06), (1, 0.12), (60, 0.15)]
)
def test_the_tolerance_is_a_bounded_share_of_the_delay(delay: float, tolerance: float) -> None:
    assert slot_tolerance(delay) == pytest.approx(tolerance)


@pytest.mark.parametrize(
    ("fact", "rows"),
    [
        (PAGE, [FETCHED]),
        (
            PageParsed(page=PAGE, duration_ms=6, started_time=to_stamp(THEN)),
            [FETCHED, Attempt(1, 2, "parse", THEN, "parsed", response_ms=6, page_key="k")],
        ),
        (
            ParseFailed(page=PAGE, error="no", duration_ms=6),
            [FETCHED, Attempt(1, 2, "parse", None, "parse_failed", response_ms=6, page_key="k", error="no")],
        ),
        (
            FetchFailed(
                task_id=1, attempt=2, kind=FailureKind.FAILURE_KIND_SERVER_ERROR, error="e", http_status=500,
                response_ms=7, proxy_id=8, started_time=to_stamp(THEN),
            ),
            [Attempt(1, 2, "fetch", THEN, "server_error", http_status=500, response_ms=7, proxy_id=8, error="e")],
        ),
        (
            FetchFailed(task_id=1, attempt=2, kind=FailureKind.FAILURE_KIND_TIMEOUT, error="e"),
            [Attempt(1, 2, "fetch", None, "timeout", response_ms=0, error="e")],
        ),
        (
            PageRejected(task_id=1, attempt=2, kind=RejectKind.REJECT_KIND_BLOCKED, reason="r", http_status=429),
            [Attempt(1, 2, "fetch", None, "blocked", http_status=429, response_ms=0, error="r")],
        ),
        (
            FetchReturned(task_id=1, attempt=2, reason=ReturnReason.RETURN_REASON_NO_CLOCK),
            [Attempt(1, 2, "fetch", None, "no_clock")],
        ),
        (
            FetchReturned(
                task_id=1, attempt=2, reason=ReturnReason.RETURN_REASON_REDIRECTED, location="/l", http_status=301
            ),
            [Attempt(1, 2, "fetch", None, "redirected", http_status=301, error="/l")],
        ),
        (FetchStarted(task_id=1, attempt=2), []),
    ],
)  # fmt: skip
def test_a_fact_tells_of_the_attempts_it_knows(fact: Message, rows: list[Attempt]) -> None:
    assert attempts_of(fact, fetch_known=False) == rows
    # Where the fetch has been told of, a parsed page tells of its parsing only.
    told = isinstance(fact, PageParsed | ParseFailed)
    assert attempts_of(fact, fetch_known=True) == ([row for row in rows if row.phase == "parse"] if told else rows)


async def test_twice_what_the_fetchers_can_hold_may_be_out_and_never_less_than_the_floor() -> None:
    capacity = Capacity(floor=64)
    now = time.monotonic()
    assert capacity.window(now) == 64
    await capacity.on_beat(Beat(worker_id="a", capacity=20).SerializeToString())
    assert capacity.window(time.monotonic()) == 64
    await capacity.on_beat(Beat(worker_id="b", capacity=100).SerializeToString())
    assert capacity.window(time.monotonic()) == 240
    await capacity.on_beat(Beat(worker_id="b", capacity=50).SerializeToString())
    assert capacity.window(time.monotonic()) == 140
    assert capacity.window(time.monotonic() + SILENT_AFTER) == 64


async def test_f11_nothing_goes_out_while_every_fetcher_has_paused() -> None:
    capacity = Capacity(floor=64)
    await capacity.on_beat(Beat(worker_id="a", capacity=0, paused="no network").SerializeToString())
    assert capacity.window(time.monotonic()) == 0
    await capacity.on_beat(Beat(worker_id="b", capacity=10).SerializeToString())
    assert capacity.window(time.monotonic()) == 64


@settings(deadline=None, max_examples=60)
@given(st.floats(0.1, 100), st.lists(st.floats(0, 2), max_size=80))
def test_never_more_tasks_are_followed_than_the_rate_and_its_burst_allow(rate: float, gaps: list[float]) -> None:
    sampler, now, taken = Sampler(per_second=rate), 0.0, 0
    for gap in gaps:
        now += gap
        taken += sampler.take(now)
    assert taken <= max(rate * 5, 1.0) + now * rate + 1


def test_a_quiet_day_is_followed_whole_and_a_rate_of_zero_follows_nothing() -> None:
    quiet, silent = Sampler(per_second=2), Sampler(per_second=0)
    assert all(quiet.take(float(second)) for second in range(50))
    assert not any(silent.take(float(second)) for second in range(50))
    busy = Sampler(per_second=2)
    assert sum(busy.take(100 + n / 1000) for n in range(1000)) == pytest.approx(12, abs=1)


@pytest.mark.parametrize(
    ("rooms", "most", "shares"),
    [
        # All fits.
        ({1: 3, 2: 5}, 10, {1: 3, 2: 5}),
        # One domain may have it all; where others are small, the rest of theirs goes to it.
        ({1: 64}, 10, {1: 10}),
        ({1: 1, 2: 1, 3: 64}, 10, {1: 1, 2: 1, 3: 8}),
        # The same for all, rounded up: who comes last finds out.
        ({1: 64, 2: 64, 3: 64}, 8, {1: 3, 2: 3, 3: 3}),
        ({1: 1, 2: 1, 3: 1}, 2, {1: 1, 2: 1, 3: 1}),
        ({1: 64, 2: 64}, 1, {1: 1, 2: 1}),
        ({}, 5, {}),
    ],
)
def test_a_round_is_shared_evenly(rooms: dict[int, int], most: int, shares: dict[int, int]) -> None:
    assert share(rooms, most) == shares


def test_a_round_locks_as_many_domains_as_the_last_ones_needed() -> None:
    habit = Habit()
    habit.learn(granted=7, domains=7, with_more=0)
    assert habit.turn == 1, "one task each"
    for turn in (2, 4, 8, 16, 16):
        habit.learn(granted=10 * habit.turn, domains=10, with_more=10)
        assert habit.turn == turn, "they have more than they were asked for"
    habit.learn(granted=0, domains=3, with_more=0)
    assert habit.turn == 1
