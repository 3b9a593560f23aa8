"""Batches: named groups of tasks, and how many pages each may still take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from limpet.kit.pg import Conn, Record
from limpet.scheduler.lifecycle import Status

ADD_BATCH: Final = """
    INSERT INTO batches (name, follow, recrawl, max_pages, webhook_url) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (name) DO NOTHING RETURNING *
"""


async def add_batch(
    conn: Conn, *, name: str, follow: bool, recrawl: bool, max_pages: int | None, webhook_url: str | None = None
) -> Record | None:
    """None when a batch of that name exists."""
    return await conn.fetchrow(ADD_BATCH, name, follow, recrawl, max_pages, webhook_url)


GET_BATCH: Final = """
    SELECT * FROM batches WHERE name = $1
"""


async def get_batch(conn: Conn, name: str) -> Record | None:
    return await conn.fetchrow(GET_BATCH, name)


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


COUNT_PAGES: Final = """
    UPDATE batches SET pages = pages + $2, open_tasks = open_tasks + $2, ended_at = NULL WHERE batch_id = $1
"""


async def count_pages(conn: Conn, batch_id: int, pages: int) -> None:
    await conn.execute(COUNT_PAGES, batch_id, pages)


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


CLOSE_BATCHES: Final = """
    UPDATE batches b
       SET open_tasks = b.open_tasks - e.count, ended_at = CASE WHEN b.open_tasks <= e.count THEN now() END
      FROM unnest($1::bigint[], $2::bigint[]) AS e(batch_id, count) WHERE b.batch_id = e.batch_id
    RETURNING b.*
"""


async def close_batches(conn: Conn, ended: Mapping[int, int]) -> list[Record]:
    """Count ended tasks down; returns the batches that have none left."""
    if not ended:
        return []
    if len(ended) > 1:
        # One alone needs no order.
        await lock_batches(conn, sorted(ended))
    rows = await conn.fetch(CLOSE_BATCHES, list(ended), list(ended.values()))
    return [row for row in rows if row["ended_at"] is not None]
