"""Tasks as they are looked at: one, pages of them by filter, and those that somebody wants to act on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn, Record
from limpet.scheduler.lifecycle import FETCHING, PARSE_PHASE

GET_TASK: Final = """
    SELECT t.*, d.name AS domain, b.name AS batch
      FROM crawl_tasks t JOIN domains d USING (domain_id) LEFT JOIN batches b USING (batch_id)
     WHERE t.task_id = $1
"""


async def get_task(conn: Conn, task_id: int) -> Record | None:
    return await conn.fetchrow(GET_TASK, task_id)


@dataclass(frozen=True)
class TaskFilter:
    """None means any."""

    kind: str = "page"
    status: str | None = None
    domain: str | None = None
    batch: str | None = None
    group_key: str | None = None
    created_by: str | None = None
    updated_since: datetime | None = None
    url_prefix: str | None = None


FIND_NAMES: Final = """
    SELECT (SELECT domain_id FROM domains WHERE name = $1), (SELECT batch_id FROM batches WHERE name = $2)
"""
# Each combination of filters deserves its own plan; one for all of them would walk the whole table.
PLAN_EACH: Final = "SET LOCAL plan_cache_mode = force_custom_plan"
# Statuses are found by `resting`, which is indexed: a status on its way is one of those where it is null.
LIST_TASKS: Final = """
    SELECT t.*, d.name AS domain, b.name AS batch
      FROM crawl_tasks t JOIN domains d USING (domain_id) LEFT JOIN batches b USING (batch_id)
     WHERE t.task_id > $1 AND t.kind = $3
       AND ($4::text IS NULL
            OR ($4 IN ('completed', 'failed', 'cancelled', 'paused') AND t.resting = $4)
            OR ($4 NOT IN ('completed', 'failed', 'cancelled', 'paused') AND t.resting IS NULL AND t.status = $4))
       AND ($5::bigint IS NULL OR t.domain_id = $5)
       AND ($6::bigint IS NULL OR t.batch_id = $6)
       AND ($7::text IS NULL OR t.group_key = $7)
       AND ($8::text IS NULL OR t.created_by = $8)
       AND ($9::timestamptz IS NULL OR t.updated_at >= $9)
       AND ($10::text IS NULL OR starts_with(t.url, $10))
     ORDER BY t.task_id LIMIT $2
"""
# What fetchers and parsers have in hand is little, and has tables of its own.
LIST_IN_HAND: Final = """
    SELECT t.*, d.name AS domain, b.name AS batch
      FROM (SELECT task_id FROM permits WHERE $4 IN ('queued', 'crawling')
             UNION
            SELECT task_id FROM parse_leases WHERE $4 NOT IN ('queued', 'crawling')) AS hand
      JOIN crawl_tasks t USING (task_id) JOIN domains d USING (domain_id) LEFT JOIN batches b USING (batch_id)
     WHERE t.task_id > $1 AND t.kind = $3 AND t.status = $4::text
       AND ($5::bigint IS NULL OR t.domain_id = $5)
       AND ($6::bigint IS NULL OR t.batch_id = $6)
       AND ($7::text IS NULL OR t.group_key = $7)
       AND ($8::text IS NULL OR t.created_by = $8)
       AND ($9::timestamptz IS NULL OR t.updated_at >= $9)
       AND ($10::text IS NULL OR starts_with(t.url, $10))
     ORDER BY t.task_id LIMIT $2
"""


async def list_tasks(conn: Conn, wanted: TaskFilter, *, after: int, limit: int) -> list[Record]:
    in_hand = wanted.status in FETCHING | PARSE_PHASE
    async with conn.transaction(readonly=True):
        # By number: the plan depends on how many tasks this very domain or batch has.
        (names,) = await conn.fetch(FIND_NAMES, wanted.domain, wanted.batch)
        domain_id, batch_id = names
        if (wanted.domain is not None and domain_id is None) or (wanted.batch is not None and batch_id is None):
            return []
        await conn.execute(PLAN_EACH)
        return await conn.fetch(
            LIST_IN_HAND if in_hand else LIST_TASKS,
            after,
            limit,
            wanted.kind,
            wanted.status,
            domain_id,
            batch_id,
            wanted.group_key,
            wanted.created_by,
            wanted.updated_since,
            wanted.url_prefix,
        )


TASKS_OF_BATCH: Final = """
    SELECT task_id FROM crawl_tasks
     WHERE batch_id = $1 AND (($2::text IS NULL AND resting IS NULL) OR resting = $2) AND task_id > $3
     ORDER BY task_id LIMIT $4
"""


async def tasks_of_batch(conn: Conn, batch_id: int, *, resting: str | None, after: int, limit: int) -> list[int]:
    """Those at rest in one status, or those on their way. Inside the caller's transaction; nothing is locked."""
    await conn.execute(PLAN_EACH)
    return [row["task_id"] for row in await conn.fetch(TASKS_OF_BATCH, batch_id, resting, after, limit)]


FAILED_TASKS: Final = """
    SELECT task_id FROM crawl_tasks
     WHERE resting = 'failed' AND kind = 'page' AND task_id > $3
       AND ($1::text IS NULL OR domain_id = (SELECT domain_id FROM domains WHERE name = $1))
       AND ($2::timestamptz IS NULL OR completed_at >= $2)
     ORDER BY task_id LIMIT $4
"""


async def failed_tasks(
    conn: Conn, *, domain: str | None, failed_after: datetime | None, after: int, limit: int
) -> list[int]:
    """Inside the caller's transaction; nothing is locked."""
    await conn.execute(PLAN_EACH)
    return [row["task_id"] for row in await conn.fetch(FAILED_TASKS, domain, failed_after, after, limit)]


ENDED_TASKS: Final = """
    SELECT t.task_id, t.url, t.status, t.attempt, t.http_status_code, t.error_message, t.completed_at, b.name AS batch,
           t.webhook_url
      FROM crawl_tasks t LEFT JOIN batches b USING (batch_id)
     WHERE t.task_id = ANY($1::bigint[]) ORDER BY t.task_id
"""


async def ended_tasks(conn: Conn, task_ids: Sequence[int]) -> list[Record]:
    """What is told about tasks that have ended."""
    return await conn.fetch(ENDED_TASKS, list(task_ids))
