"""Tasks: one row per URL for ever."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from limpet.kit.pg import Conn, Record
from limpet.scheduler.lifecycle import PARSE_PHASE, TERMINAL, TRANSITIONS, Status
from limpet.scheduler.outcome import TaskRow

LOCK_TASKS: Final = """
    SELECT t.task_id, t.domain_id, t.status, t.attempt, t.crawl_base, t.fetch_errors, t.blocks, t.parse_errors,
           t.redirects, t.max_retries, t.batch_id
      FROM crawl_tasks t
     WHERE t.task_id = ANY($1::bigint[]) ORDER BY t.task_id FOR NO KEY UPDATE
"""


async def lock_tasks(conn: Conn, task_ids: Sequence[int]) -> dict[int, TaskRow]:
    """The tasks by id, locked in one order so that no two batches wait for each other."""
    rows = await conn.fetch(LOCK_TASKS, list(task_ids))
    return {row[0]: TaskRow(row[0], row[1], Status(row[2]), *row[3:]) for row in rows}


# Compare and set: only from the status and the attempt that the decision was made on.
CHANGE_TASKS: Final = """
    UPDATE crawl_tasks t
       SET status = c.target,
           scheduled_at = CASE WHEN c.target = 'pending' THEN now() + make_interval(secs => c.wait) ELSE t.scheduled_at END,
           completed_at = CASE WHEN c.target IN ('completed', 'failed') THEN now() END,
           parse_lease_until = CASE c.target WHEN 'queued_parse' THEN now() + $15::interval WHEN 'downloaded' THEN now() END,
           fetch_errors = c.fetch_errors, blocks = c.blocks, parse_errors = c.parse_errors, redirects = c.redirects,
           error_message = c.error, moved_to = coalesce(c.moved_to, t.moved_to), page_fact = coalesce(c.page_fact, t.page_fact),
           http_status_code = coalesce(c.http_status, t.http_status_code),
           response_time_ms = coalesce(c.response_ms, t.response_time_ms), proxy_id = c.proxy_id, updated_at = now()
      FROM unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::float8[], $6::smallint[], $7::smallint[], $8::smallint[],
                  $9::smallint[], $10::text[], $11::text[], $12::bytea[], $13::smallint[], $14::int[], $16::bigint[])
           AS c(task_id, source, attempt, target, wait, fetch_errors, blocks, parse_errors, redirects, error, moved_to, page_fact,
                http_status, response_ms, proxy_id)
     WHERE t.task_id = c.task_id AND t.status = c.source AND t.attempt = c.attempt
"""


async def change_tasks(conn: Conn, changes: Sequence[tuple[Status, TaskRow]], *, parse_lease: Any) -> None:
    """Write what the facts of one batch did: (status before, task after)."""
    if not changes:
        return
    rows = [task for _, task in changes]
    await conn.execute(
        CHANGE_TASKS,
        [task.task_id for task in rows],
        [source.value for source, _ in changes],
        [task.attempt for task in rows],
        [task.status.value for task in rows],
        [task.wait for task in rows],
        [task.fetch_errors for task in rows],
        [task.blocks for task in rows],
        [task.parse_errors for task in rows],
        [task.redirects for task in rows],
        [task.error for task in rows],
        [task.moved_to for task in rows],
        [task.page.SerializeToString() if task.page is not None else None for task in rows],
        [task.http_status for task in rows],
        [task.response_ms for task in rows],
        parse_lease,
        [task.proxy_id for task in rows],
    )


MARK_CRAWLING: Final = """
    UPDATE crawl_tasks t SET status = 'crawling', started_at = now(), updated_at = now()
      FROM unnest($1::bigint[], $2::int[]) AS s(task_id, attempt)
     WHERE t.task_id = s.task_id AND t.attempt = s.attempt AND t.status = 'queued'
"""


async def mark_crawling(conn: Conn, started: Sequence[tuple[int, int]]) -> None:
    await conn.execute(MARK_CRAWLING, [key[0] for key in started], [key[1] for key in started])


MARK_PARSING: Final = """
    UPDATE crawl_tasks t SET status = 'parsing', updated_at = now()
      FROM unnest($1::bigint[], $2::int[]) AS s(task_id, attempt)
     WHERE t.task_id = s.task_id AND t.status = 'queued_parse' AND s.attempt BETWEEN t.crawl_base + 1 AND t.attempt
"""


async def mark_parsing(conn: Conn, started: Sequence[tuple[int, int]]) -> None:
    await conn.execute(MARK_PARSING, [key[0] for key in started], [key[1] for key in started])


EXPIRE_FETCHES: Final = """
    UPDATE crawl_tasks t
       SET status = CASE WHEN t.fetch_losses >= $4 THEN 'failed' ELSE 'pending' END,
           fetch_losses = t.fetch_losses + 1, scheduled_at = now(), updated_at = now(),
           completed_at = CASE WHEN t.fetch_losses >= $4 THEN now() END,
           error_message = CASE WHEN t.fetch_losses >= $4 THEN 'no fetcher reported before its permit expired, too often' ELSE t.error_message END
      FROM unnest($1::bigint[], $2::int[]) AS lost(task_id, attempt)
     WHERE t.task_id = lost.task_id AND t.attempt = lost.attempt AND t.status = ANY($3::text[])
    RETURNING t.domain_id
"""


async def expire_fetches(conn: Conn, keys: Sequence[tuple[int, int]], *, max_losses: int) -> list[int]:
    """Make tasks due again whose permits expired; a task that loses every fetcher is given up. Returns their domains."""
    sources = [status.value for status in TRANSITIONS["fetch_lost"].sources]
    rows = await conn.fetch(EXPIRE_FETCHES, [key[0] for key in keys], [key[1] for key in keys], sources, max_losses)
    return [row["domain_id"] for row in rows]


ASK_PARSES: Final = """
    WITH late AS (
        SELECT task_id FROM crawl_tasks
         WHERE parse_lease_until < now() ORDER BY parse_lease_until LIMIT $1
           FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE crawl_tasks t
       SET status = CASE WHEN t.parse_losses >= $4 THEN 'failed' ELSE 'queued_parse' END,
           parse_losses = t.parse_losses + CASE WHEN t.status = 'downloaded' THEN 0 ELSE 1 END,
           parse_lease_until = CASE WHEN t.parse_losses >= $4 THEN NULL ELSE now() + $2::interval END,
           completed_at = CASE WHEN t.parse_losses >= $4 THEN now() END,
           error_message = CASE WHEN t.parse_losses >= $4 THEN 'no parser reported before its lease expired, too often' ELSE t.error_message END,
           updated_at = now()
      FROM late
     WHERE t.task_id = late.task_id AND t.status = ANY($3::text[])
    RETURNING t.status, t.page_fact
"""


async def ask_parses(conn: Conn, *, limit: int, lease: Any, max_losses: int) -> list[bytes]:
    """The pages whose parse was lost or not yet asked for, leased anew."""
    sources = [status.value for status in PARSE_PHASE]
    rows = await conn.fetch(ASK_PARSES, limit, lease, sources, max_losses)
    return [row["page_fact"] for row in rows if row["status"] == Status.QUEUED_PARSE and row["page_fact"] is not None]


ADD_TASKS: Final = """
    INSERT INTO crawl_tasks (domain_id, url, url_hash, priority, scheduled_at, max_retries, group_key, batch_id, parser_name,
                             is_recurring, crawl_frequency, created_by, trace_id)
    SELECT n.domain_id, n.url, n.url_hash, n.priority, coalesce(n.scheduled_at, now()), n.max_retries, n.group_key, $10,
           n.parser_name, n.is_recurring, n.crawl_frequency, $11, coalesce(n.trace_id, gen_random_uuid())
      FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::smallint[], $5::timestamptz[], $6::smallint[], $7::text[],
                  $8::text[], $9::boolean[], $12::interval[], $13::uuid[])
           AS n(domain_id, url, url_hash, priority, scheduled_at, max_retries, group_key, parser_name, is_recurring, crawl_frequency,
                trace_id)
     WHERE NOT EXISTS (SELECT FROM crawl_tasks known WHERE known.url_hash = n.url_hash)
     ORDER BY n.url_hash
    ON CONFLICT (url_hash) DO NOTHING
    RETURNING task_id, domain_id, url_hash, scheduled_at
"""


async def add_tasks(conn: Conn, tasks: Sequence[Any], *, batch_id: int | None, created_by: str) -> list[Record]:
    """Add what is not known yet. The order of insertion is the same everywhere, so that no two wait for each other."""
    return await conn.fetch(
        ADD_TASKS,
        [task.domain_id for task in tasks],
        [task.url for task in tasks],
        [task.digest for task in tasks],
        [task.priority for task in tasks],
        [task.scheduled_at for task in tasks],
        [task.max_retries for task in tasks],
        [task.group_key for task in tasks],
        [task.parser_name for task in tasks],
        [task.is_recurring for task in tasks],
        batch_id,
        created_by,
        [task.crawl_frequency for task in tasks],
        [task.trace_id for task in tasks],
    )


RECRAWL_TASKS: Final = """
    WITH known AS (
        SELECT task_id FROM crawl_tasks
         WHERE url_hash = ANY($1::bytea[]) AND batch_id IS DISTINCT FROM $2 AND status = ANY($3::text[])
         ORDER BY task_id LIMIT $4 FOR NO KEY UPDATE NOWAIT
    )
    UPDATE crawl_tasks t
       SET status = 'pending', batch_id = $2, crawl_base = t.attempt, scheduled_at = now(), completed_at = NULL, started_at = NULL,
           fetch_errors = 0, fetch_losses = 0, blocks = 0, parse_errors = 0, parse_losses = 0, redirects = 0, moved_to = NULL,
           error_message = NULL, page_fact = NULL, parse_lease_until = NULL, recrawl_count = t.recrawl_count + 1,
           trace_id = gen_random_uuid(), updated_at = now()
      FROM known WHERE t.task_id = known.task_id
    RETURNING t.task_id, t.domain_id, t.url_hash, t.scheduled_at
"""


async def recrawl_tasks(conn: Conn, digests: Sequence[bytes], *, batch_id: int, limit: int) -> list[Record]:
    """Start a new crawl of known URLs that ended earlier, as part of this batch.

    Domains are locked already, which elsewhere come after tasks: so this never waits, and raises where it would have to.
    """
    return await conn.fetch(RECRAWL_TASKS, list(digests), batch_id, [status.value for status in TERMINAL], limit)


FIND_TASKS: Final = """
    SELECT task_id, url_hash FROM crawl_tasks WHERE url_hash = ANY($1::bytea[])
"""


async def find_tasks(conn: Conn, digests: Sequence[bytes]) -> dict[bytes, int]:
    return {row["url_hash"]: row["task_id"] for row in await conn.fetch(FIND_TASKS, list(digests))}


GET_TASK: Final = """
    SELECT t.*, d.name AS domain, b.name AS batch
      FROM crawl_tasks t JOIN domains d USING (domain_id) LEFT JOIN batches b USING (batch_id)
     WHERE t.task_id = $1
"""


async def get_task(conn: Conn, task_id: int) -> Record | None:
    return await conn.fetchrow(GET_TASK, task_id)


LIST_TASKS: Final = """
    SELECT t.*, d.name AS domain, b.name AS batch
      FROM crawl_tasks t JOIN domains d USING (domain_id) LEFT JOIN batches b USING (batch_id)
     WHERE t.task_id > $1
       AND ($3::text IS NULL OR t.status = $3)
       AND ($4::text IS NULL OR d.name = $4)
       AND ($5::text IS NULL OR b.name = $5)
     ORDER BY t.task_id LIMIT $2
"""


async def list_tasks(
    conn: Conn, *, after: int, limit: int, status: str | None, domain: str | None, batch: str | None
) -> list[Record]:
    return await conn.fetch(LIST_TASKS, after, limit, status, domain, batch)


COUNT_BY_STATUS: Final = """
    SELECT status, count(*) AS count FROM crawl_tasks GROUP BY status
"""


async def count_by_status(conn: Conn) -> dict[str, int]:
    counts = {row["status"]: row["count"] for row in await conn.fetch(COUNT_BY_STATUS)}
    return {status.value: counts.get(status.value, 0) for status in Status}


READ_CLOCK: Final = """
    SELECT clock_timestamp()
"""


async def read_clock(conn: Conn) -> datetime:
    moment: datetime = await conn.fetchval(READ_CLOCK)
    return moment
