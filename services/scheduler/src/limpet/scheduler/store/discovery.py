"""Domains whose sitemaps and archives are looked for, and when they were last looked at."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from limpet.kit.pg import Conn, Record

# Once a day, or when little is left to do that matters, but then no oftener than `rest`.
DOMAINS_TO_LOOK_AT: Final = """
    SELECT d.* FROM domains d
     WHERE d.discover <> 'off' AND d.is_active
       AND (d.discovered_at IS NULL OR d.discovered_at < now() - $1::interval
            OR (d.discovered_at < now() - $2::interval
                AND (SELECT count(*) FROM (
                     SELECT FROM due_tasks q WHERE q.domain_id = d.domain_id AND q.priority <= $3 LIMIT d.discover_below
                     ) AS due) < d.discover_below))
     ORDER BY d.discovered_at NULLS FIRST LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED
"""


async def domains_to_look_at(conn: Conn, *, every: timedelta, rest: timedelta, high: int, limit: int) -> list[Record]:
    """Locked, so that two schedulers never look at one together."""
    return await conn.fetch(DOMAINS_TO_LOOK_AT, every, rest, high, limit)


LOOKED_AT: Final = """
    UPDATE domains SET discovered_at = now() WHERE domain_id = $1
"""


async def looked_at(conn: Conn, domain_id: int) -> None:
    await conn.execute(LOOKED_AT, domain_id)


# The latest ones say how the site names its pages now.
GOOD_URLS: Final = """
    SELECT url FROM crawl_tasks WHERE domain_id = $1 AND resting = 'completed' AND kind = 'page'
     ORDER BY task_id DESC LIMIT $2
"""


async def good_urls(conn: Conn, domain_id: int, *, limit: int) -> list[str]:
    return [row["url"] for row in await conn.fetch(GOOD_URLS, domain_id, limit)]


ENDED_SITEMAPS: Final = """
    SELECT task_id FROM crawl_tasks
     WHERE batch_id = $1 AND kind = 'sitemap' AND resting IS NOT NULL AND resting <> 'paused'
       AND completed_at < now() - $2::interval
     ORDER BY task_id LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
"""


async def ended_sitemaps(conn: Conn, batch_id: int, *, every: timedelta) -> list[int]:
    """Sitemaps that may list something new by now, locked."""
    return [row["task_id"] for row in await conn.fetch(ENDED_SITEMAPS, batch_id, every)]
