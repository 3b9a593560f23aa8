"""What the fleet's signs mean: each worker's status and the whole platform's, from numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from limpet.contracts.events.v1.beat_pb2 import BreakerState

WorkerStatus = Literal["healthy", "degraded", "failing"]
FleetStatus = Literal["healthy", "degraded", "down"]
FLEET_STATUSES: Final[tuple[FleetStatus, ...]] = ("healthy", "degraded", "down")

# The seed's numbers.
DEGRADED_AFTER_ERRORS: Final = 2
FAILING_AFTER_ERRORS: Final = 5
DEGRADED_AFTER_SECONDS: Final = 120.0
FAILING_AFTER_SECONDS: Final = 300.0
DEGRADED_FROM_ERRORS_A_MINUTE: Final = 5
DOWN_ABOVE_ERRORS_A_MINUTE: Final = 10


@dataclass(frozen=True, slots=True)
class Worker:
    """One live worker as its last beat showed it. Plain seconds are on the watcher's own monotonic clock."""

    worker_id: str
    service: str
    started_at: datetime
    last_work_at: datetime | None
    age_seconds: float
    seen: float
    # Work has been in hand without a pause since then; None for an idle worker.
    busy_since: float | None
    # The last piece of work was finished then, moved from the worker's clock to ours.
    progressed: float | None
    capacity: int
    in_hand: int
    done_total: int
    errors_total: int
    errors_in_a_row: int
    memory_bytes: int
    cpu_percent: float
    average_latency_ms: float
    p95_latency_ms: float
    breakers: tuple[BreakerState, ...] = ()
    # Why it takes no work; empty when it does.
    paused: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The platform's status, and why it is not better."""

    status: FleetStatus
    reason: str = ""


def stalled_seconds(worker: Worker, *, now: float) -> float:
    """How long its work in hand has not moved. An idle worker is not stale, however long it waits."""
    if worker.busy_since is None:
        return 0.0
    since = worker.busy_since if worker.progressed is None else max(worker.busy_since, worker.progressed)
    return max(0.0, now - since)


def worker_status(worker: Worker, *, now: float) -> WorkerStatus:
    """The seed's three levels, by errors in a row or by work that does not move; one that has to pause is degraded."""
    stalled = stalled_seconds(worker, now=now)
    if worker.errors_in_a_row > FAILING_AFTER_ERRORS or stalled > FAILING_AFTER_SECONDS:
        return "failing"
    if worker.paused or worker.errors_in_a_row > DEGRADED_AFTER_ERRORS or stalled > DEGRADED_AFTER_SECONDS:
        return "degraded"
    return "healthy"


def judge(workers: Sequence[Worker], *, errors_last_minute: int, now: float) -> Verdict:
    """The seed's rules. Its error counts hold per active worker, so a fleet of one is judged exactly as there."""
    if not any(worker.service == "fetcher" for worker in workers):
        return Verdict("down", "no_fetcher_alive")
    error_rate = errors_last_minute / len(workers)
    if error_rate > DOWN_ABOVE_ERRORS_A_MINUTE:
        return Verdict("down", "too_many_errors")
    if error_rate >= DEGRADED_FROM_ERRORS_A_MINUTE:
        return Verdict("degraded", "many_errors")
    if any(worker_status(worker, now=now) != "healthy" for worker in workers):
        return Verdict("degraded", "unhealthy_workers")
    return Verdict("healthy")
