"""What the outside is told: the health answer in the seed's exact shape, and the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from limpet.contracts.events.v1.beat_pb2 import BreakerState
from limpet.health.fleet import Fleet
from limpet.health.verdict import Verdict, Worker, worker_status

MEGABYTE: Final = 1024 * 1024
RATE_SECONDS: Final = 10
MAX_BREAKERS: Final = 1000
BREAKER_ORDER: Final = {"OPEN": 0, "HALF_OPEN": 1}


def health_answer(
    fleet: Fleet, workers: Sequence[Worker], verdict: Verdict, *, now: float, at: datetime
) -> dict[str, Any]:
    """The seed's `HealthStatus.to_dict()`."""
    memory = [worker.memory_bytes / MEGABYTE for worker in workers]
    fetchers = [worker for worker in workers if worker.service == "fetcher"]
    latencies = [worker.average_latency_ms for worker in fetchers if worker.done_total]
    return {
        "status": verdict.status,
        "timestamp": rfc3339(at),
        "active_scraper_count": len(workers),
        "total_matches_scraping": sum(worker.in_hand for worker in fetchers),
        "scrapers": [_scraper(worker, now=now, at=at) for worker in workers],
        "resources": {
            "total_memory_mb": round(sum(memory), 1),
            "average_memory_mb": round(_mean(memory), 1),
            "peak_memory_mb": round(max(memory, default=0.0), 1),
            "total_cpu_percent": round(sum(worker.cpu_percent for worker in workers), 1),
        },
        "errors": {
            "last_minute": fleet.errors.last(60, now=now),
            "last_hour": fleet.errors.last(3600, now=now),
            "circuit_breakers": _breakers(workers),
        },
        "performance": {
            "average_latency_ms": round(_mean(latencies), 1),
            # Percentiles cannot be averaged: the slowest fetcher's is a bound that holds for all.
            "p95_latency_ms": round(max((worker.p95_latency_ms for worker in fetchers), default=0.0), 1),
            "updates_per_minute": fleet.pages.last(60, now=now),
        },
    }


def stats_answer(fleet: Fleet, workers: Sequence[Worker], *, now: float) -> dict[str, Any]:
    """Tasks by status, throughput, and what each service has and carries."""
    services: dict[str, dict[str, int]] = {}
    for worker in workers:
        row = services.setdefault(worker.service, {"count": 0, "in_hand": 0, "capacity": 0, "paused": 0})
        row["count"] += 1
        row["in_hand"] += worker.in_hand
        row["capacity"] += worker.capacity
        row["paused"] += bool(worker.paused)
    counted_at = fleet.tasks.counted_at
    return {
        "tasks": fleet.tasks.by_status,
        "tasks_counted_at": rfc3339(counted_at) if counted_at else None,
        "pages_per_second": round(fleet.pages.last(RATE_SECONDS, now=now) / RATE_SECONDS, 2),
        "workers": services,
    }


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _scraper(worker: Worker, *, now: float, at: datetime) -> dict[str, Any]:
    """The seed's `ScraperContext.to_dict()`. A worker that serves many targets names its service as its match."""
    return {
        "scraper_id": worker.worker_id,
        "match_id": worker.service,
        "url": "",
        "start_time": rfc3339(worker.started_at),
        "last_update": rfc3339(worker.last_work_at or worker.started_at),
        "uptime_seconds": round(worker.age_seconds + now - worker.seen, 1),
        "error_count": worker.errors_in_a_row,
        "total_errors": worker.errors_total,
        "total_updates": worker.done_total,
        "health_status": worker_status(worker, now=now),
        "memory_mb": round(worker.memory_bytes / MEGABYTE, 1),
        "cpu_percent": round(worker.cpu_percent, 1),
        "polling_interval": 0.0,
    }


def _breakers(workers: Sequence[Worker]) -> list[dict[str, Any]]:
    """The open ones first, so that the limit never hides them."""
    every = [breaker for worker in workers for breaker in worker.breakers]
    every.sort(key=lambda breaker: (BREAKER_ORDER.get(breaker.state, 2), breaker.name))
    return [_breaker(breaker) for breaker in every[:MAX_BREAKERS]]


def _breaker(breaker: BreakerState) -> dict[str, Any]:
    changed = breaker.last_change_time
    return {
        "name": breaker.name,
        "state": breaker.state,
        "failure_count": breaker.failure_count,
        "success_count": breaker.success_count,
        "total_calls": breaker.total_calls,
        "total_successes": breaker.total_successes,
        "total_failures": breaker.total_failures,
        "total_rejections": breaker.total_rejections,
        "last_state_change": rfc3339(changed.ToDatetime(tzinfo=UTC)) if changed.seconds > 0 else None,
    }


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
