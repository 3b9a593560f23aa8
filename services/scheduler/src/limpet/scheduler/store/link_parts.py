"""Link parts: which parts of a page with very many links have been taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from limpet.kit.pg import Conn

ADD_LINK_PART: Final = """
    INSERT INTO link_parts (task_id, attempt, part) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
"""


async def add_link_part(conn: Conn, *, task_id: int, attempt: int, part: int) -> None:
    await conn.execute(ADD_LINK_PART, task_id, attempt, part)


COUNT_LINK_PARTS: Final = """
    SELECT task_id, attempt, count(*) AS count FROM link_parts
     WHERE (task_id, attempt) IN (SELECT * FROM unnest($1::bigint[], $2::int[])) GROUP BY task_id, attempt
"""


async def count_link_parts(conn: Conn, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    rows = await conn.fetch(COUNT_LINK_PARTS, [key[0] for key in keys], [key[1] for key in keys])
    return {(row["task_id"], row["attempt"]): row["count"] for row in rows}


PRUNE_LINK_PARTS: Final = """
    DELETE FROM link_parts
     WHERE (task_id, attempt, part) IN (
           SELECT p.task_id, p.attempt, p.part FROM link_parts p LEFT JOIN crawl_tasks t USING (task_id)
            WHERE t.task_id IS NULL OR t.status IN ('completed', 'failed', 'cancelled') OR p.attempt <= t.crawl_base
            LIMIT $1)
    RETURNING task_id
"""


async def prune_link_parts(conn: Conn, *, limit: int) -> int:
    """Forget up to `limit` parts that nobody waits for: their task has ended, or is in a later crawl."""
    return len(await conn.fetch(PRUNE_LINK_PARTS, limit))
