"""The answers, made once a second and kept as bytes: asking costs the same whatever the fleet's size."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson
import structlog

from limpet.health import metrics
from limpet.health.answer import health_answer, stats_answer
from limpet.health.fleet import SERVICES, Fleet
from limpet.health.verdict import FAILING_AFTER_SECONDS, FLEET_STATUSES, Verdict, Worker, judge, stalled_seconds

log = structlog.get_logger()


class Board:
    """What the API shows."""

    def __init__(self, fleet: Fleet, *, every_seconds: float) -> None:
        self._fleet = fleet
        self._every = every_seconds
        self._verdict: Verdict | None = None
        self.health = b""
        self.stats = b""

    async def run(self) -> None:
        """A part of the process, started before the one that answers callers."""
        while True:
            self.refresh(now=time.monotonic(), at=datetime.now(UTC))
            await asyncio.sleep(self._every)

    def refresh(self, *, now: float, at: datetime) -> None:
        for worker in self._fleet.forget_silent(now=now):
            metrics.WORKERS_LOST.labels(_label(worker.service)).inc()
            log.warning("worker_lost", worker_id=worker.worker_id, of=worker.service, in_hand=worker.in_hand)
        workers = self._fleet.workers()
        verdict = judge(workers, errors_last_minute=self._fleet.errors.last(60, now=now), now=now)
        self.health = orjson.dumps(health_answer(self._fleet, workers, verdict, now=now, at=at))
        self.stats = orjson.dumps(stats_answer(self._fleet, workers, now=now))
        self._show(verdict)
        self._show_stalled(workers, now=now)

    def _show_stalled(self, workers: Sequence[Worker], *, now: float) -> None:
        stalled = Counter(w.service for w in workers if stalled_seconds(w, now=now) > FAILING_AFTER_SECONDS)
        for service in SERVICES:
            metrics.WORKERS_STALLED.labels(service).set(stalled[service])

    def _show(self, verdict: Verdict) -> None:
        sizes = self._fleet.sizes()
        for service in SERVICES:
            metrics.WORKERS.labels(service).set(sizes[service])
        metrics.WORKERS.labels("other").set(sum(sizes.values()) - sum(sizes[service] for service in SERVICES))
        for status in FLEET_STATUSES:
            metrics.FLEET_STATUS.labels(status).set(status == verdict.status)
        if verdict != self._verdict:
            log.info("verdict_changed", status=verdict.status, reason=verdict.reason)
            self._verdict = verdict


def _label(service: str) -> str:
    return service if service in SERVICES else "other"
