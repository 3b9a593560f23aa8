"""The live workers, from their beats: a bounded table in memory that forgets whoever falls silent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Final, Literal

from google.protobuf.timestamp_pb2 import Timestamp

from limpet.contracts.events.v1.beat_pb2 import Beat
from limpet.health.tally import Tally
from limpet.health.verdict import Worker

SERVICES: Final = ("scheduler", "fetcher", "parser", "proxy-broker", "health")
TASK_STATUSES: Final = (
    "pending",
    "queued",
    "crawling",
    "downloaded",
    "queued_parse",
    "parsing",
    "completed",
    "failed",
    "paused",
    "cancelled",
)
MAX_PAUSED: Final = 500
MAX_BREAKERS_A_WORKER: Final = 100
MAX_ID_LENGTH: Final = 200

Heard = Literal["taken", "nameless", "full"]


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """The scheduler's own count, and when it was made."""

    by_status: dict[str, int]
    counted_at: datetime | None


class Fleet:
    """Who is alive, what they carry, and how much was done and failed lately."""

    def __init__(self, *, limit: int, forget_after_seconds: float) -> None:
        self._limit = limit
        self._forget_after = forget_after_seconds
        self._workers: dict[str, Worker] = {}
        self.tasks = TaskCounts(dict.fromkeys(TASK_STATUSES, 0), None)
        self.errors = Tally(span_seconds=3600)
        self.pages = Tally(span_seconds=60)

    def hear(self, beat: Beat, *, now: float) -> Heard:
        """Take one beat in; says why if it was not taken."""
        if not 0 < len(beat.worker_id) <= MAX_ID_LENGTH or not 0 < len(beat.service) <= MAX_ID_LENGTH:
            return "nameless"
        before = self._workers.get(beat.worker_id)
        if before is None and len(self._workers) >= self._limit:
            return "full"
        worker = _worker_of(beat, before, now=now)
        self._workers[worker.worker_id] = worker
        self._count(worker, before, now=now)
        if beat.tasks_by_status:
            counts = {status: beat.tasks_by_status.get(status, 0) for status in TASK_STATUSES}
            self.tasks = TaskCounts(counts, _moment(beat.beat_time))
        return "taken"

    def forget_silent(self, *, now: float) -> list[Worker]:
        """Drop the workers that stopped beating, and say who they were."""
        silent = [worker for worker in self._workers.values() if now - worker.seen > self._forget_after]
        for worker in silent:
            del self._workers[worker.worker_id]
        return silent

    def workers(self) -> list[Worker]:
        return list(self._workers.values())

    def sizes(self) -> Counter[str]:
        return Counter(worker.service for worker in self._workers.values())

    def _count(self, worker: Worker, before: Worker | None, *, now: float) -> None:
        if before is not None and before.started_at == worker.started_at:
            done, errors = before.done_total, before.errors_total
        elif before is not None or worker.age_seconds <= self._forget_after:
            done = errors = 0  # it started under our eyes: all it counted is recent
        else:
            done, errors = worker.done_total, worker.errors_total  # nobody knows when that was
        self.errors.add(worker.errors_total - errors, now=now)
        if worker.service == "fetcher":
            self.pages.add(worker.done_total - done, now=now)


def _worker_of(beat: Beat, before: Worker | None, *, now: float) -> Worker:
    beat_at = _moment(beat.beat_time) or datetime.now(UTC)
    started_at = _moment(beat.start_time) or beat_at
    last_work_at = _moment(beat.last_work_time)
    busy_since = None
    if beat.in_hand > 0:
        busy_since = before.busy_since if before is not None and before.busy_since is not None else now
    return Worker(
        worker_id=beat.worker_id,
        service=beat.service,
        started_at=started_at,
        last_work_at=last_work_at,
        age_seconds=max(0.0, (beat_at - started_at).total_seconds()),
        seen=now,
        busy_since=busy_since,
        progressed=None if last_work_at is None else now - max(0.0, (beat_at - last_work_at).total_seconds()),
        capacity=beat.capacity,
        in_hand=beat.in_hand,
        done_total=beat.done_total,
        errors_total=beat.errors_total,
        errors_in_a_row=beat.errors_in_a_row,
        memory_bytes=beat.memory_bytes,
        cpu_percent=_finite(beat.cpu_percent),
        average_latency_ms=_finite(beat.average_latency_ms),
        p95_latency_ms=_finite(beat.p95_latency_ms),
        paused=beat.paused[:MAX_PAUSED],
        breakers=tuple(beat.breakers[:MAX_BREAKERS_A_WORKER]),
    )


def _moment(stamp: Timestamp) -> datetime | None:
    """None where the worker left it out or sent nonsense."""
    try:
        return stamp.ToDatetime(tzinfo=UTC) if stamp.seconds > 0 else None
    except (ValueError, OverflowError):
        return None


def _finite(number: float) -> float:
    return min(max(number, 0.0), 1e9) if isfinite(number) else 0.0
