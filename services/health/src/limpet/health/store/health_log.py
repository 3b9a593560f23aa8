"""Rows of `scraper_health_log`: how each worker was at regular moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from limpet.kit.pg import Conn


@dataclass(frozen=True, slots=True)
class HealthRow:
    scraper_id: str
    service: str
    health_status: str
    error_count: int
    memory_mb: float
    cpu_percent: float
    update_latency_ms: int
    uptime_seconds: int
    last_update_age_seconds: int | None


INSERT_HEALTH: Final = """
    WITH written AS (
        INSERT INTO scraper_health_log (
            scraper_id, service, timestamp, health_status, error_count, memory_mb, cpu_percent,
            update_latency_ms, uptime_seconds, last_update_age_seconds
        )
        SELECT worker.scraper_id, worker.service, date_bin($1::interval, now(), to_timestamp(0)),
               worker.health_status, worker.error_count, worker.memory_mb, worker.cpu_percent,
               worker.update_latency_ms, worker.uptime_seconds, worker.last_update_age_seconds
          FROM unnest(
              $2::text[], $3::text[], $4::text[], $5::int[], $6::float8[],
              $7::float8[], $8::int[], $9::int[], $10::int[]
          ) AS worker (
              scraper_id, service, health_status, error_count, memory_mb, cpu_percent,
              update_latency_ms, uptime_seconds, last_update_age_seconds
          )
        ON CONFLICT (scraper_id, timestamp) DO NOTHING
        RETURNING 1
    )
    SELECT count(*) FROM written
"""


async def insert_health(conn: Conn, rows: Sequence[HealthRow], *, every: timedelta) -> int:
    """One row per worker and moment, however many replicas write: moments are the database clock's, rounded."""
    if not rows:
        return 0
    written: int = await conn.fetchval(
        INSERT_HEALTH,
        every,
        [row.scraper_id for row in rows],
        [row.service for row in rows],
        [row.health_status for row in rows],
        [row.error_count for row in rows],
        [row.memory_mb for row in rows],
        [row.cpu_percent for row in rows],
        [row.update_latency_ms for row in rows],
        [row.uptime_seconds for row in rows],
        [row.last_update_age_seconds for row in rows],
    )
    return written


DELETE_OLD_HEALTH: Final = """
    DELETE FROM scraper_health_log
     WHERE id IN (
        SELECT id FROM scraper_health_log
         WHERE timestamp < now() - $1::interval
         ORDER BY timestamp
         LIMIT 20000
     )
"""


async def delete_old_health(conn: Conn, *, kept: timedelta) -> None:
    """A bounded piece at a time: a round never holds the table for long."""
    await conn.execute(DELETE_OLD_HEALTH, kept)
