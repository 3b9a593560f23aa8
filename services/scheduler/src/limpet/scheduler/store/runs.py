"""Runs: what is asked of each, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from limpet.kit.pg import Conn, Record

# What is asked of a run, by column.
WISHES: Final = (
    "on_failed_start_page", "quorum", "allow_empty", "least_share", "item_pattern", "parser_name", "list_parser_name", "priority", "max_retries",
    "max_list_pages", "recrawl", "webhook_url",
)  # fmt: skip

ADD_RUN: Final = """
    INSERT INTO runs (run_id, domain_id, schedule_id, created_by, on_failed_start_page, quorum, allow_empty, least_share,
                      item_pattern, parser_name, list_parser_name, priority, max_retries, max_list_pages, recrawl, webhook_url)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
"""


async def add_run(
    conn: Conn, run_id: UUID, *, domain_id: int, schedule_id: int | None, created_by: str, wishes: Mapping[str, Any]
) -> None:
    """The domain is locked by the caller, and has no live run."""
    await conn.execute(ADD_RUN, run_id, domain_id, schedule_id, created_by, *(wishes[name] for name in WISHES))


FIND_RUN: Final = """
    SELECT run_id, domain_id FROM runs WHERE run_id = $1
"""


async def find_run(conn: Conn, run_id: UUID) -> Record | None:
    return await conn.fetchrow(FIND_RUN, run_id)


LIVE_RUN: Final = """
    SELECT run_id FROM runs WHERE domain_id = $1 AND ended_at IS NULL
"""


async def live_run(conn: Conn, domain_id: int) -> UUID | None:
    found: UUID | None = await conn.fetchval(LIVE_RUN, domain_id)
    return found


class LiveRun(NamedTuple):
    """What decides about the list pages of a run."""

    run_id: UUID
    domain_id: int
    domain: str
    item_pattern: str | None
    list_parser_name: str | None
    priority: int
    max_retries: int
    max_list_pages: int


# Whoever ends a run waits for those who add to it, and nobody adds to it afterwards.
SHARE_RUNS: Final = """
    SELECT r.run_id, r.domain_id, d.name, r.item_pattern, r.list_parser_name, r.priority, r.max_retries, r.max_list_pages
      FROM runs r JOIN domains d USING (domain_id)
     WHERE r.run_id = ANY($1::uuid[]) AND r.ended_at IS NULL
     ORDER BY r.run_id FOR SHARE OF r
"""


async def share_runs(conn: Conn, run_ids: Sequence[UUID]) -> dict[UUID, LiveRun]:
    """Those of the runs that have not ended, held so until the transaction is over."""
    return {row[0]: LiveRun(*row) for row in await conn.fetch(SHARE_RUNS, sorted(run_ids))}


OVER_RUNS: Final = """
    SELECT r.run_id FROM runs r
     WHERE r.ended_at IS NULL
       AND (NOT EXISTS (SELECT FROM run_start_pages p WHERE p.run_id = r.run_id AND p.state IN ('pending', 'paginating'))
            OR (r.on_failed_start_page = 'abort'
                AND EXISTS (SELECT FROM run_start_pages p WHERE p.run_id = r.run_id AND p.state = 'failed')))
     ORDER BY r.run_no LIMIT $1
"""


async def over_runs(conn: Conn, *, limit: int) -> list[UUID]:
    """Live runs that wait for nothing more. Nothing is locked."""
    return [row["run_id"] for row in await conn.fetch(OVER_RUNS, limit)]


TAKE_RUN: Final = """
    SELECT * FROM runs WHERE run_id = $1 AND ended_at IS NULL FOR UPDATE SKIP LOCKED
"""


async def take_run(conn: Conn, run_id: UUID) -> Record | None:
    """A live run to be ended. None where somebody else ends it, or has."""
    return await conn.fetchrow(TAKE_RUN, run_id)


LOCK_RUN: Final = """
    SELECT * FROM runs WHERE run_id = $1 FOR UPDATE
"""


async def lock_run(conn: Conn, run_id: UUID) -> Record | None:
    return await conn.fetchrow(LOCK_RUN, run_id)


LAST_GOOD: Final = """
    SELECT urls FROM runs WHERE domain_id = $1 AND state = 'committed' ORDER BY run_no DESC LIMIT 1
"""


async def last_good(conn: Conn, domain_id: int) -> int | None:
    """How many URLs the last run of the site that was committed had."""
    found: int | None = await conn.fetchval(LAST_GOOD, domain_id)
    return found


END_RUN: Final = """
    UPDATE runs SET state = $2, ended_at = clock_timestamp(), gate = $3, reason = $4, urls = $5, new_tasks = $6, batch_id = $7
     WHERE run_id = $1 AND ended_at IS NULL
    RETURNING *
"""


async def end_run(
    conn: Conn,
    run_id: UUID,
    *,
    state: str,
    gate: str | None = None,
    reason: str | None = None,
    urls: int | None = None,
    new_tasks: int | None = None,
    batch_id: int | None = None,
) -> Record:
    """Its row is locked by the caller, and live."""
    return await conn.fetchrow(END_RUN, run_id, state, gate, reason, urls, new_tasks, batch_id)


UNCLEARED: Final = """
    SELECT run_id, domain_id, state, recrawl, batch_id, priority FROM runs
     WHERE ended_at IS NOT NULL AND cleared_at IS NULL ORDER BY run_no LIMIT $1
"""


async def uncleared(conn: Conn, *, limit: int) -> list[Record]:
    """Ended runs with something left to do."""
    return await conn.fetch(UNCLEARED, limit)


CLEAR_RUN: Final = """
    UPDATE runs SET cleared_at = now() WHERE run_id = $1 AND ended_at IS NOT NULL
"""


async def clear_run(conn: Conn, run_id: UUID) -> None:
    await conn.execute(CLEAR_RUN, run_id)


UNANNOUNCED: Final = """
    SELECT r.run_id, r.domain_id, d.name AS domain, r.state, r.gate, r.reason, r.urls, r.new_tasks, r.ended_at
      FROM runs r JOIN domains d USING (domain_id)
     WHERE r.ended_at IS NOT NULL AND r.announced_at IS NULL ORDER BY r.run_no LIMIT $1 FOR UPDATE OF r SKIP LOCKED
"""


async def unannounced(conn: Conn, *, limit: int) -> list[Record]:
    return await conn.fetch(UNANNOUNCED, limit)


ANNOUNCED: Final = """
    UPDATE runs SET announced_at = now() WHERE run_id = ANY($1::uuid[])
"""


async def mark_announced(conn: Conn, run_ids: Sequence[UUID]) -> None:
    await conn.execute(ANNOUNCED, list(run_ids))


GET_RUN: Final = """
    SELECT r.*, d.name AS site, b.name AS batch, s.name AS schedule, p.*
      FROM runs r JOIN domains d USING (domain_id) LEFT JOIN batches b USING (batch_id) LEFT JOIN run_schedules s USING (schedule_id)
     CROSS JOIN LATERAL (
           SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'paginating') AS paginating,
                  count(*) FILTER (WHERE state = 'completed') AS completed, count(*) FILTER (WHERE state = 'failed') AS failed,
                  coalesce(sum(collected), 0)::bigint AS collected, coalesce(sum(pages), 0)::bigint AS list_pages
             FROM run_start_pages WHERE run_id = r.run_id) AS p
     WHERE r.run_id = $1
"""


async def get_run(conn: Conn, run_id: UUID) -> Record | None:
    return await conn.fetchrow(GET_RUN, run_id)


LIST_RUNS: Final = """
    SELECT r.*, d.name AS site, b.name AS batch, s.name AS schedule, p.*
      FROM runs r JOIN domains d USING (domain_id) LEFT JOIN batches b USING (batch_id) LEFT JOIN run_schedules s USING (schedule_id)
     CROSS JOIN LATERAL (
           SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'paginating') AS paginating,
                  count(*) FILTER (WHERE state = 'completed') AS completed, count(*) FILTER (WHERE state = 'failed') AS failed,
                  coalesce(sum(collected), 0)::bigint AS collected, coalesce(sum(pages), 0)::bigint AS list_pages
             FROM run_start_pages WHERE run_id = r.run_id) AS p
     WHERE r.run_no < $1 AND ($3::text IS NULL OR d.name = $3) AND ($4::text IS NULL OR r.state = $4)
     ORDER BY r.run_no DESC LIMIT $2
"""


async def list_runs(conn: Conn, *, before: int, limit: int, site: str | None, state: str | None) -> list[Record]:
    """The newest first."""
    return await conn.fetch(LIST_RUNS, before, limit, site, state)


# The last good run of each site stays: the next one is compared with it.
OLD_RUNS: Final = """
    SELECT r.run_id FROM runs r
     WHERE r.cleared_at IS NOT NULL AND r.announced_at IS NOT NULL AND r.ended_at < now() - $1::interval
       AND r.run_no <> (SELECT max(last.run_no) FROM runs last WHERE last.domain_id = r.domain_id)
       AND r.run_no IS DISTINCT FROM
           (SELECT max(good.run_no) FROM runs good WHERE good.domain_id = r.domain_id AND good.state = 'committed')
     ORDER BY r.run_no LIMIT $2
"""


async def old_runs(conn: Conn, *, kept: Any, limit: int) -> list[UUID]:
    return [row["run_id"] for row in await conn.fetch(OLD_RUNS, kept, limit)]


DROP_RUNS: Final = """
    DELETE FROM runs WHERE run_id = ANY($1::uuid[]) RETURNING run_id
"""


async def drop_runs(conn: Conn, run_ids: Sequence[UUID]) -> int:
    """With their start pages. Their list pages and URLs are gone already."""
    return len(await conn.fetch(DROP_RUNS, list(run_ids)))
