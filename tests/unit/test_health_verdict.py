"""The seed's rules for workers and platform, at their edges."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from limpet.health.verdict import Worker, judge, stalled_seconds, worker_status

NOW = 10_000.0
IDLE = Worker(
    worker_id="fetcher-1",
    service="fetcher",
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    last_work_at=None,
    age_seconds=5000.0,
    seen=NOW,
    busy_since=None,
    progressed=NOW - 4000,
    capacity=32,
    in_hand=0,
    done_total=10,
    errors_total=0,
    errors_in_a_row=0,
    memory_bytes=1,
    cpu_percent=1.0,
    average_latency_ms=1.0,
    p95_latency_ms=1.0,
)
BUSY = replace(IDLE, in_hand=1, busy_since=NOW - 4000)


@pytest.mark.parametrize(("errors", "status"), [(2, "healthy"), (3, "degraded"), (5, "degraded"), (6, "failing")])
def test_errors_in_a_row_make_a_worker_degraded_then_failing(errors: int, status: str) -> None:
    assert worker_status(replace(IDLE, errors_in_a_row=errors), now=NOW) == status


@pytest.mark.parametrize(("age", "status"), [(120, "healthy"), (121, "degraded"), (300, "degraded"), (301, "failing")])
def test_work_in_hand_that_does_not_move_makes_a_worker_stale(age: int, status: str) -> None:
    assert worker_status(replace(BUSY, progressed=NOW - age), now=NOW) == status


def test_an_idle_worker_is_never_stale() -> None:
    assert stalled_seconds(IDLE, now=NOW) == 0
    assert worker_status(IDLE, now=NOW) == "healthy"


def test_a_worker_that_has_just_got_work_after_a_long_pause_is_not_stale() -> None:
    assert worker_status(replace(BUSY, busy_since=NOW - 1), now=NOW) == "healthy"


def test_no_fetcher_means_down_however_many_others_are_alive() -> None:
    assert judge([], errors_last_minute=0, now=NOW).status == "down"
    assert judge([replace(IDLE, service="parser")], errors_last_minute=0, now=NOW).status == "down"


@pytest.mark.parametrize(("errors", "status"), [(4, "healthy"), (5, "degraded"), (10, "degraded"), (11, "down")])
def test_a_fleet_of_one_is_judged_by_the_seeds_own_numbers(errors: int, status: str) -> None:
    assert judge([IDLE], errors_last_minute=errors, now=NOW).status == status


@pytest.mark.parametrize(("errors", "status"), [(11, "healthy"), (1000, "degraded"), (2001, "down")])
def test_a_fleet_of_200_is_judged_by_errors_per_worker(errors: int, status: str) -> None:
    assert judge([IDLE] * 200, errors_last_minute=errors, now=NOW).status == status


def test_one_stale_worker_degrades_the_platform() -> None:
    verdict = judge([IDLE, BUSY], errors_last_minute=0, now=NOW)
    assert (verdict.status, verdict.reason) == ("degraded", "unhealthy_workers")


def test_f11_a_worker_that_has_to_pause_is_degraded() -> None:
    assert worker_status(IDLE, now=0) == "healthy"
    assert worker_status(replace(IDLE, paused="no target can be connected to"), now=0) == "degraded"
