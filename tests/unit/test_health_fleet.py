"""The table of live workers and the answers made from it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import orjson
from google.protobuf.timestamp_pb2 import Timestamp

from limpet.contracts.events.v1.beat_pb2 import Beat, BreakerState
from limpet.health.board import Board
from limpet.health.fleet import TASK_STATUSES, Fleet
from limpet.health.verdict import worker_status

EPOCH = 1_800_000_000.0


def beat(worker_id: str = "w1", *, service: str = "fetcher", at: float, started: float = 0.0, **fields: Any) -> Beat:
    """A beat whose worker's clock is hours away from ours: only differences may count."""
    last_work = fields.pop("last_work", None)
    made = Beat(worker_id=worker_id, service=service, **fields)
    made.beat_time.FromMilliseconds(int((EPOCH + at) * 1000))
    made.start_time.FromMilliseconds(int((EPOCH + started) * 1000))
    if last_work is not None:
        made.last_work_time.FromMilliseconds(int((EPOCH + last_work) * 1000))
    return made


def fleet_of(*, limit: int = 100) -> Fleet:
    return Fleet(limit=limit, forget_after_seconds=10)


def answer_of(fleet: Fleet, *, now: float) -> dict[str, Any]:
    board = Board(fleet, every_seconds=1)
    board.refresh(now=now, at=datetime.fromtimestamp(EPOCH, UTC))
    answer: dict[str, Any] = orjson.loads(board.health)
    return answer


def test_a_silent_worker_is_forgotten_and_named() -> None:
    fleet = fleet_of()
    fleet.hear(beat("a", at=0), now=0)
    fleet.hear(beat("b", at=8), now=8)
    assert [worker.worker_id for worker in fleet.forget_silent(now=11)] == ["a"]
    assert [worker.worker_id for worker in fleet.workers()] == ["b"]


def test_the_table_is_bounded_and_known_workers_stay_heard() -> None:
    fleet = fleet_of(limit=2)
    assert [fleet.hear(beat(name, at=0), now=0) for name in "abc"] == ["taken", "taken", "full"]
    assert fleet.hear(beat("a", at=2), now=2) == "taken"
    assert fleet.hear(beat("", at=2), now=2) == "nameless"


def test_errors_are_counted_from_the_growth_of_each_workers_total() -> None:
    fleet = fleet_of()
    fleet.hear(beat(at=1, errors_total=2), now=1)  # began under our eyes
    fleet.hear(beat("old", at=5000, errors_total=700), now=1)  # nobody knows when those were
    fleet.hear(beat(at=3, errors_total=5), now=3)
    assert fleet.errors.last(60, now=3) == 5
    fleet.hear(beat(at=64, started=63, errors_total=1), now=64)  # the same name, started again
    assert fleet.errors.last(60, now=65) == 1
    assert fleet.errors.last(3600, now=65) == 6


def test_a_worker_that_was_away_for_a_while_is_not_counted_twice() -> None:
    fleet = fleet_of()
    fleet.hear(beat(at=1, errors_total=9), now=1)
    fleet.forget_silent(now=30)
    fleet.hear(beat(at=31, errors_total=9), now=31)
    assert fleet.errors.last(60, now=31) == 9


def test_staleness_counts_from_the_moment_work_came_into_hand() -> None:
    fleet = fleet_of()
    fleet.hear(beat(at=5000, in_hand=0, last_work=10), now=5000)
    fleet.hear(beat(at=5002, in_hand=3, last_work=10), now=5002)
    (worker,) = fleet.workers()
    assert worker_status(worker, now=5002) == "healthy"
    for moment in range(5004, 5310, 2):
        fleet.hear(beat(at=moment, in_hand=3, last_work=10), now=moment)
    (worker,) = fleet.workers()
    assert worker_status(worker, now=5309) == "failing"
    fleet.hear(beat(at=5310, in_hand=3, last_work=5309), now=5310)
    (worker,) = fleet.workers()
    assert worker_status(worker, now=5310) == "healthy"


def test_the_health_answer_has_exactly_the_seeds_shape() -> None:
    fleet = fleet_of()
    breakers = [BreakerState(name="calm", state="CLOSED"), BreakerState(name="hot", state="OPEN", failure_count=5)]
    fleet.hear(beat(at=1, in_hand=4, last_work=1, memory_bytes=3 << 20, cpu_percent=12.5, breakers=breakers), now=1)
    fleet.hear(
        beat(at=3, in_hand=4, last_work=3, done_total=20, average_latency_ms=40, breakers=breakers),
        now=3,
    )
    answer = answer_of(fleet, now=4)
    assert list(answer) == [
        "status",
        "timestamp",
        "active_scraper_count",
        "total_matches_scraping",
        "scrapers",
        "resources",
        "errors",
        "performance",
    ]
    assert answer["status"] == "healthy"
    assert answer["timestamp"].endswith("Z")
    assert (answer["active_scraper_count"], answer["total_matches_scraping"]) == (1, 4)
    assert set(answer["scrapers"][0]) == {
        "scraper_id",
        "match_id",
        "url",
        "start_time",
        "last_update",
        "uptime_seconds",
        "error_count",
        "total_errors",
        "total_updates",
        "health_status",
        "memory_mb",
        "cpu_percent",
        "polling_interval",
    }
    assert answer["scrapers"][0]["uptime_seconds"] == 4
    assert set(answer["resources"]) == {
        "total_memory_mb",
        "average_memory_mb",
        "peak_memory_mb",
        "total_cpu_percent",
    }
    assert set(answer["errors"]) == {"last_minute", "last_hour", "circuit_breakers"}
    assert [breaker["name"] for breaker in answer["errors"]["circuit_breakers"]] == ["hot", "calm"]
    assert answer["performance"] == {"average_latency_ms": 40, "p95_latency_ms": 0, "updates_per_minute": 20}


def test_nonsense_in_a_beat_hurts_nobody() -> None:
    fleet = fleet_of()
    fleet.hear(Beat(worker_id="w", service="fetcher", cpu_percent=float("nan"), p95_latency_ms=float("inf")), now=1)
    fleet.hear(
        Beat(worker_id="x", service="made-up", start_time=Timestamp(seconds=2**60), in_hand=-5, memory_bytes=-1), now=1
    )
    answer = answer_of(fleet, now=2)
    assert answer["active_scraper_count"] == 2
    assert answer["resources"]["total_cpu_percent"] == 0


def test_statistics_hold_every_status_and_what_each_service_carries() -> None:
    fleet = fleet_of()
    fleet.hear(beat("s", service="scheduler", at=1, tasks_by_status={"pending": 3, "completed": 4}), now=1)
    fleet.hear(beat("f1", at=1, in_hand=2, capacity=32, done_total=50), now=1)
    fleet.hear(beat("f2", at=1, in_hand=1, capacity=32), now=1)
    board = Board(fleet, every_seconds=1)
    board.refresh(now=2, at=datetime.now(UTC))
    stats = orjson.loads(board.stats)
    assert set(stats["tasks"]) == set(TASK_STATUSES)
    assert len(stats["tasks"]) == 10
    assert (stats["tasks"]["pending"], stats["tasks"]["completed"], stats["tasks"]["failed"]) == (3, 4, 0)
    assert stats["pages_per_second"] == 5.0
    assert stats["workers"]["fetcher"] == {"count": 2, "in_hand": 3, "capacity": 64, "paused": 0}


def test_a_fleet_of_5000_is_judged_in_a_moment() -> None:
    fleet = fleet_of(limit=10_000)
    for number in range(5000):
        fleet.hear(beat(f"worker-{number}", at=1), now=1)
    board = Board(fleet, every_seconds=1)
    started = time.process_time()
    board.refresh(now=2, at=datetime.now(UTC))
    assert time.process_time() - started < 0.5
    assert orjson.loads(board.health)["active_scraper_count"] == 5000
