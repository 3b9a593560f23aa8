"""What is known of the robots.txt of each origin of a domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn, Record


@dataclass(frozen=True)
class Robots:
    domain_id: int
    scheme: str
    state: str
    content: str
    fetched_at: datetime | None
    note: str | None


GET_ROBOTS: Final = """
    SELECT domain_id, scheme, state, content, fetched_at, note FROM robots WHERE domain_id = ANY($1::bigint[])
"""


async def get_robots(conn: Conn, domain_ids: Sequence[int]) -> list[Robots]:
    return [Robots(*row) for row in await conn.fetch(GET_ROBOTS, list(domain_ids))]


GET_SITEMAPS: Final = """
    SELECT domain_id, sitemaps FROM robots WHERE domain_id = ANY($1::bigint[])
"""


async def get_sitemaps(conn: Conn, domain_ids: Sequence[int]) -> dict[int, list[str]]:
    """What the robots.txt of these domains name, whatever the scheme."""
    found: dict[int, list[str]] = {}
    for row in await conn.fetch(GET_SITEMAPS, list(domain_ids)):
        found.setdefault(row["domain_id"], []).extend(row["sitemaps"])
    return found


WANT_ROBOTS: Final = """
    WITH wanted AS (
        INSERT INTO robots (domain_id, scheme) SELECT * FROM unnest($1::bigint[], $2::text[])
        ON CONFLICT DO NOTHING RETURNING domain_id
    )
    UPDATE domains d SET robots_unread = d.robots_unread + w.count, robots_version = d.robots_version + 1
      FROM (SELECT domain_id, count(*) AS count FROM wanted GROUP BY domain_id) AS w WHERE d.domain_id = w.domain_id
"""


async def want_robots(conn: Conn, origins: Sequence[tuple[int, str]]) -> None:
    """Origins (domain, scheme) that nobody has asked for their robots.txt yet. Domains are locked by the caller."""
    if origins:
        await conn.execute(WANT_ROBOTS, [origin[0] for origin in origins], [origin[1] for origin in origins])


# What an origin said last holds until it says something else: a robots.txt that cannot be reached keeps the rules that were read.
SAVE_ROBOTS: Final = """
    WITH before AS (
        SELECT state FROM robots WHERE domain_id = $1 AND scheme = $2
    ), saved AS (
        UPDATE robots r
           SET state = CASE WHEN $3 = 'unreachable' AND r.state IN ('read', 'absent') THEN r.state ELSE $3 END,
               content = CASE WHEN $3 = 'unreachable' THEN r.content ELSE $4 END,
               sitemaps = CASE WHEN $3 = 'unreachable' THEN r.sitemaps ELSE $5::text[] END,
               delay_seconds = CASE WHEN $3 = 'unreachable' THEN r.delay_seconds ELSE $7 END,
               fetched_at = CASE WHEN $3 = 'unreachable' THEN r.fetched_at ELSE now() END, note = $6
         WHERE r.domain_id = $1 AND r.scheme = $2
     RETURNING r.domain_id, r.state
    )
    UPDATE domains d
       SET robots_unread = d.robots_unread
                         - CASE WHEN before.state IN ('unread', 'unreachable') AND saved.state IN ('read', 'absent') THEN 1 ELSE 0 END,
           robots_version = d.robots_version + 1, robots_delay_seconds = slowest.delay,
           -- A longer delay holds from the last start on.
           next_slot_at = CASE WHEN d.next_slot_at = '-infinity' THEN d.next_slot_at ELSE d.next_slot_at + make_interval(secs =>
               greatest(0, least(slowest.delay, 60) - greatest(d.crawl_delay_seconds, least(d.robots_delay_seconds, 60)))) END,
           ready_at = least(d.ready_at, greatest(d.next_slot_at, d.held_until, now()))
      FROM saved, before, (
           SELECT coalesce(max(delay), 0) AS delay FROM (
               SELECT delay_seconds AS delay FROM robots WHERE domain_id = $1 AND ($3 = 'unreachable' OR scheme <> $2)
                UNION ALL SELECT $7 WHERE $3 <> 'unreachable') AS delays) AS slowest
     WHERE d.domain_id = saved.domain_id
    RETURNING d.domain_id
"""


async def save_robots(
    conn: Conn,
    origin: tuple[int, str],
    *,
    state: str,
    content: str,
    sitemaps: Sequence[str],
    delay: float,
    note: str | None,
) -> Record | None:
    """Keep what an origin said, and let the domain go on. Its row is locked by the caller."""
    return await conn.fetchrow(SAVE_ROBOTS, origin[0], origin[1], state, content, list(sitemaps), note, delay)


ROBOTS_TASK: Final = """
    SELECT split_part(t.url, ':', 1) AS scheme, d.user_agent FROM crawl_tasks t JOIN domains d USING (domain_id)
     WHERE t.task_id = $1
"""


async def robots_task(conn: Conn, task_id: int) -> tuple[str, str]:
    """The scheme whose robots.txt this task fetches, and as whom."""
    row: Record = await conn.fetchrow(ROBOTS_TASK, task_id)
    return row["scheme"], row["user_agent"]
