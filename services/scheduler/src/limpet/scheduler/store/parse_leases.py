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
