"""Batches: named groups of tasks, and how many pages each may still take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from limpet.kit.pg import Conn, Record
from limpet.scheduler.lifecycle import Status

ADD_BATCH: Final = """
    INSERT INTO batches (name, follow, recrawl, max_pages) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name) DO NOTHING RETURNING *
"""


async def add_batch(conn: Conn, *, name: str, follow: bool, recrawl: bool, max_pages: int | None) -> Record | None:
    """None when a batch of that name exists."""
    return await conn.fetchrow(ADD_BATCH, name, follow, recrawl, max_pages)


GET_BATCH: Final = """
    SELECT * FROM batches WHERE name = $1
"""


async def get_batch(conn: Conn, name: str) -> Record | None:
    return await conn.fetchrow(GET_BATCH, name)


COUNT_BATCH: Final = """
    SELECT status, count(*) AS count FROM crawl_tasks WHERE batch_id = $1 GROUP BY status
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
    UPDATE batches SET pages = pages + $2 WHERE batch_id = $1
"""


async def count_pages(conn: Conn, batch_id: int, pages: int) -> None:
    await conn.execute(COUNT_PAGES, batch_id, pages)


FOLLOWING: Final = """
    SELECT batch_id FROM batches WHERE batch_id = ANY($1::bigint[]) AND follow
"""


async def following(conn: Conn, batch_ids: Sequence[int]) -> set[int]:
    """Of these batches, the ones that follow links."""
    return {row["batch_id"] for row in await conn.fetch(FOLLOWING, list(batch_ids))}
