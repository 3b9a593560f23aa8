"""Rows of `scraper_errors`: what went wrong in a worker, and whether it is settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from limpet.kit.pg import Conn


@dataclass(frozen=True, slots=True)
class ErrorRow:
    scraper_id: str
    service: str
    timestamp: datetime
    error_type: str
    error_message: str
    stack_trace: str
    url: str
    operation: str
    retry_attempt: int
    task_id: int | None


INSERT_ERRORS: Final = """
    WITH written AS (
        INSERT INTO scraper_errors (
            batch_id, batch_index, scraper_id, service, timestamp, error_type, error_message,
            stack_trace, url, operation, retry_attempt, task_id
        )
        SELECT $1, event.place, event.scraper_id, event.service, event.occurred, event.error_type, event.error_message,
               nullif(event.stack_trace, ''), nullif(event.url, ''), nullif(event.operation, ''),
               event.retry_attempt, event.task_id
          FROM unnest(
              $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::text[],
              $7::text[], $8::text[], $9::text[], $10::int[], $11::bigint[]
          ) WITH ORDINALITY AS event (
              scraper_id, service, occurred, error_type, error_message,
              stack_trace, url, operation, retry_attempt, task_id, place
          )
        ON CONFLICT (batch_id, batch_index) DO NOTHING
        RETURNING 1
    )
    SELECT count(*) FROM written
"""


async def insert_errors(conn: Conn, rows: Sequence[ErrorRow], *, batch_id: str) -> int:
    """All errors of one message. The same message again writes nothing."""
    if not rows:
        return 0
    written: int = await conn.fetchval(
        INSERT_ERRORS,
        batch_id,
        [row.scraper_id for row in rows],
        [row.service for row in rows],
        [row.timestamp for row in rows],
        [row.error_type for row in rows],
        [row.error_message for row in rows],
        [row.stack_trace for row in rows],
        [row.url for row in rows],
        [row.operation for row in rows],
        [row.retry_attempt for row in rows],
        [row.task_id for row in rows],
    )
    return written


DELETE_OLD_ERRORS: Final = """
    DELETE FROM scraper_errors
     WHERE id IN (
        SELECT id FROM scraper_errors
         WHERE timestamp < now() - $1::interval
         ORDER BY timestamp
         LIMIT 20000
     )
"""


async def delete_old_errors(conn: Conn, *, kept: timedelta) -> None:
    """A bounded piece at a time: a round never holds the table for long."""
    await conn.execute(DELETE_OLD_ERRORS, kept)
