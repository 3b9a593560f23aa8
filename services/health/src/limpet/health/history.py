"""The fleet's history: now and then one row per worker, in one insert; old rows go."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import asyncpg
import structlog

from limpet.health import metrics
from limpet.health.fleet import Fleet
from limpet.health.store.errors import delete_old_errors
from limpet.health.store.health_log import HealthRow, delete_old_health, insert_health
from limpet.health.verdict import Worker, worker_status
from limpet.kit.pg import LOST, Pool

log = structlog.get_logger()

MAX_INTEGER: Final = 2**31 - 1


@dataclass(frozen=True)
class History:
    pool: Pool
    fleet: Fleet
    every: timedelta
    kept: timedelta

    async def run(self) -> None:
        """A part of the process. A round that the database cannot take is lost: the next one is as good."""
        while True:
            await asyncio.sleep(self.every.total_seconds())
            try:
                await self.write(now=time.monotonic())
            except (*LOST, asyncpg.PostgresError) as error:
                metrics.HISTORY_FAILURES.inc()
                log.warning("history_not_written", error=repr(error))

    async def write(self, *, now: float) -> int:
        rows = [health_row(worker, now=now) for worker in self.fleet.workers()]
        async with self.pool.acquire() as conn:
            written = await insert_health(conn, rows, every=self.every)
            await delete_old_health(conn, kept=self.kept)
            await delete_old_errors(conn, kept=self.kept)
        metrics.HISTORY_ROWS.inc(written)
        return written


def health_row(worker: Worker, *, now: float) -> HealthRow:
    since_progress = None if worker.progressed is None else now - worker.progressed
    return HealthRow(
        scraper_id=worker.worker_id.replace("\x00", "\ufffd"),
        service=worker.service.replace("\x00", "\ufffd"),
        health_status=worker_status(worker, now=now),
        error_count=worker.errors_in_a_row,
        memory_mb=worker.memory_bytes / (1024 * 1024),
        cpu_percent=worker.cpu_percent,
        update_latency_ms=_whole(worker.average_latency_ms),
        uptime_seconds=_whole(worker.age_seconds + now - worker.seen),
        last_update_age_seconds=None if since_progress is None else _whole(since_progress),
    )


def _whole(number: float) -> int:
    return int(min(max(number, 0.0), MAX_INTEGER))
