"""Batches: named groups of tasks, and how many pages each may still take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from limpet.kit.pg import Conn, Record
from limpet.scheduler.lifecycle import Status

ADD_BATCH: Final = """
    INSERT INTO batches (name, follow, recrawl, max_pages, webhook_url, max_bytes, priority, sitemaps, scope)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb)
    ON CONFLICT (name) DO NOTHING RETURNING *
"""


async def add_batch(
    conn: Conn,
    *,
    name: str,
    follow: bool,
    recrawl: bool,
    max_pages: int | None,
    webhook_url: str | None = None,
    max_bytes: int | None = None,
    priority: int = 5,
    sitemaps: bool = False,
    scope: str = "{}",
) -> Record | None:
    """None when a batch of that name exists. `scope` is JSON."""
    return await conn.fetchrow(
        ADD_BATCH, name, follow, recrawl, max_pages, webhook_url, max_bytes, priority, sitemaps, scope
    )


GET_BATCH: Final = """
    SELECT * FROM batches WHERE name = $1
"""


async def get_batch(conn: Conn, name: str) -> Record | None:
    return await conn.fetchrow(GET_BATCH, name)


GET_TERMS: Final = """
    SELECT batch_id, name, follow, priority, sitemaps, scope::text AS scope FROM batches WHERE batch_id = ANY($1::bigint[])
"""


async def get_terms(conn: Conn, batch_ids: Sequence[int]) -> list[Record]:
    """What never changes about these batches."""
    return await conn.fetch(GET_TERMS, list(batch_ids))


LIST_BATCHES: Final = """
    SELECT * FROM batches WHERE batch_id > $1 ORDER BY batch_id LIMIT $2
"""


async def list_batches(conn: Conn, *, after: int, limit: int) -> list[Record]:
    return await conn.fetch(LIST_BATCHES, after, limit)


# What rests is counted on the index alone; what is on its way is little.
COUNT_BATCH: Final = """
    SELECT resting AS status, count(*) AS count FROM crawl_tasks WHERE batch_id = $1 AND resting IS NOT NULL GROUP BY resting
     UNION ALL
    SELECT status, count(*) AS count FROM crawl_tasks WHERE batch_id = $1 AND resting IS NULL GROUP BY status
"""


async def count_batch(conn: Conn, batch_id: int) -> dict[str, int]:
    counts = {row["status"]: row["count"] for row in await conn.fetch(COUNT_BATCH, batch_id)}
    return {status.value: counts.get(status.value, 0) for status in Status}


LOCK_BATCHES: Final = """
    SELECT * FROM batches WHERE batch_id = ANY($1::bigint[]) ORDER BY batch_id FOR NO KEY UPDATE
"""


async def lock_batches(conn: Conn, batch_ids: Sequence[int]) -> dict[int, Record]:
    return {row["batch_id"]: row for row in await conn.fetch(LOCK_BATCHES, list(batch_ids))}


# Those that have anything on this domain: the index of its tasks on their way is short.
READING_SITEMAPS: Final = """
    SELECT b.batch_id FROM batches b
     WHERE b.sitemaps AND b.open_tasks > 0
       AND EXISTS (SELECT FROM crawl_tasks t WHERE t.batch_id = b.batch_id AND t.domain_id = $1 AND t.resting IS NULL)
     ORDER BY b.batch_id
"""


async def reading_sitemaps(conn: Conn, domain_id: int) -> list[int]:
    """Batches under way on this domain that read sitemaps."""
    return [row["batch_id"] for row in await conn.fetch(READING_SITEMAPS, domain_id)]


COUNT_PAGES: Final = """
    UPDATE batches SET pages = pages + $2, open_tasks = open_tasks + $2, ended_at = NULL WHERE batch_id = $1
"""


async def count_pages(conn: Conn, batch_id: int, pages: int) -> None:
    await conn.execute(COUNT_PAGES, batch_id, pages)


COUNT_OPEN: Final = """
    UPDATE batches SET open_tasks = open_tasks + $2, ended_at = NULL WHERE batch_id = $1
"""


async def count_open(conn: Conn, batch_id: int, tasks: int) -> None:
    """Sitemaps and probes are tasks of the batch, but none of its pages."""
    await conn.execute(COUNT_OPEN, batch_id, tasks)


# Locked in one order before: batches are the last that anybody locks.
REOPEN_BATCHES: Final = """
    UPDATE batches b SET open_tasks = b.open_tasks + o.count, ended_at = NULL
      FROM unnest($1::bigint[], $2::bigint[]) AS o(batch_id, count) WHERE b.batch_id = o.batch_id
"""


async def reopen_batches(conn: Conn, batch_ids: Sequence[int]) -> None:
    """Ended tasks of these batches, named once for each, are on their way again."""
    counts = Counter(batch_ids)
    if counts:
        await lock_batches(conn, sorted(counts))
        await conn.execute(REOPEN_BATCHES, list(counts), list(counts.values()))


@dataclass
class Ended:
    """What the end of some tasks means for their batch."""

    tasks: int = 0
    bytes: int = 0
    missed: int = 0


CLOSE_BATCHES: Final = """
    UPDATE batches b
       SET open_tasks = b.open_tasks - e.count, ended_at = CASE WHEN b.open_tasks <= e.count THEN now() END,
           bytes = b.bytes + e.bytes, missed = b.missed + e.missed
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS e(batch_id, count, bytes, missed)
     WHERE b.batch_id = e.batch_id
    RETURNING b.*
"""


async def close_batches(conn: Conn, ended: Mapping[int, Ended]) -> list[Record]:
    """Count ended tasks down; returns the batches that have none left."""
    if not ended:
        return []
    if len(ended) > 1:
        # One alone needs no order.
        await lock_batches(conn, sorted(ended))
    rows = await conn.fetch(
        CLOSE_BATCHES,
        list(ended),
        [one.tasks for one in ended.values()],
        [one.bytes for one in ended.values()],
        [one.missed for one in ended.values()],
    )
    return [row for row in rows if row["ended_at"] is not None]


OVERDRAWN: Final = """
    SELECT batch_id FROM batches WHERE max_bytes IS NOT NULL AND bytes >= max_bytes AND open_tasks > 0 LIMIT 100
"""


async def overdrawn(conn: Conn) -> list[int]:
    """Batches that have had their bytes, and still have tasks."""
    return [row["batch_id"] for row in await conn.fetch(OVERDRAWN)]
