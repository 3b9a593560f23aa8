"""Pages that a parser owes an answer for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from limpet.kit.pg import Conn

LATE_PARSES: Final = """
    SELECT task_id FROM parse_leases WHERE lease_until < now() ORDER BY lease_until LIMIT $1
"""


async def late_parses(conn: Conn, *, limit: int) -> list[int]:
    """Tasks whose parse was lost, or not asked for yet. Nothing is locked: whoever acts on them locks the tasks."""
    return [row["task_id"] for row in await conn.fetch(LATE_PARSES, limit)]


STILL_LATE: Final = """
    SELECT task_id FROM parse_leases WHERE task_id = ANY($1::bigint[]) AND lease_until < now()
"""


async def still_late(conn: Conn, task_ids: Sequence[int]) -> set[int]:
    """Of these, the ones that nobody settled before their tasks were locked."""
    return {row["task_id"] for row in await conn.fetch(STILL_LATE, list(task_ids))}


RENEW_LEASES: Final = """
    UPDATE parse_leases SET lease_until = now() + $2::interval WHERE task_id = ANY($1::bigint[])
"""


async def renew_leases(conn: Conn, task_ids: Sequence[int], *, lease: timedelta) -> None:
    await conn.execute(RENEW_LEASES, list(task_ids), lease)


PAGE_FACTS: Final = """
    SELECT task_id, page_fact FROM crawl_tasks WHERE task_id = ANY($1::bigint[]) AND page_fact IS NOT NULL
"""


async def page_facts(conn: Conn, task_ids: Sequence[int]) -> list[bytes]:
    return [row["page_fact"] for row in await conn.fetch(PAGE_FACTS, list(task_ids))]


STORED_PAGES: Final = """
    SELECT task_id, page_fact FROM crawl_tasks WHERE task_id = ANY($1::bigint[]) AND page_fact IS NOT NULL
"""


async def stored_pages(conn: Conn, task_ids: Sequence[int]) -> dict[int, bytes]:
    """The last good page of each task that has one."""
    return {row["task_id"]: row["page_fact"] for row in await conn.fetch(STORED_PAGES, list(task_ids))}


# A page may be of an earlier crawl than the last: what is said about it counts again.
COUNT_PAGES_AGAIN: Final = """
    UPDATE crawl_tasks t
       SET crawl_base = least(t.crawl_base, p.attempt - 1), parse_losses = CASE WHEN $3 THEN 0 ELSE t.parse_losses END
      FROM unnest($1::bigint[], $2::int[]) AS p(task_id, attempt)
     WHERE t.task_id = p.task_id
"""


async def count_pages_again(conn: Conn, pages: Sequence[tuple[int, int]], *, reset: bool) -> None:
    """These pages, by task and attempt, are parsed again."""
    await conn.execute(COUNT_PAGES_AGAIN, [page[0] for page in pages], [page[1] for page in pages], reset)
