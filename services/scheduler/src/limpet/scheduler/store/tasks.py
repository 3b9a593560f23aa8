"""Tasks: one row per URL for ever."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from limpet.kit.pg import Conn, Record
from limpet.scheduler.lifecycle import TERMINAL, Status
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.store.columns import sparse, sparse_counts
from limpet.scheduler.store.queues import Due, unqueue

LOCK_TASKS: Final = """
    SELECT t.task_id, t.domain_id, t.status, t.attempt, t.crawl_base, t.fetch_errors, t.blocks, t.parse_errors,
           t.redirects, t.max_retries, t.batch_id, t.kind, t.priority, t.scheduled_at, t.group_key, t.paused_from,
           t.next_crawl_at, t.has_children, t.webhook_url
      FROM crawl_tasks t
     WHERE t.task_id = ANY($1::bigint[]) ORDER BY t.task_id FOR NO KEY UPDATE
"""


async def lock_tasks(conn: Conn, task_ids: Sequence[int]) -> dict[int, TaskRow]:
    """The tasks by id, locked in one order so that no two batches wait for each other."""
    rows = await conn.fetch(LOCK_TASKS, list(task_ids))
    return {row[0]: TaskRow(row[0], row[1], Status(row[2]), *row[3:]) for row in rows}


LOCK_FREE_TASKS: Final = """
    SELECT t.task_id, t.domain_id, t.status, t.attempt, t.crawl_base, t.fetch_errors, t.blocks, t.parse_errors,
           t.redirects, t.max_retries, t.batch_id, t.kind, t.priority, t.scheduled_at, t.group_key, t.paused_from,
           t.next_crawl_at, t.has_children, t.webhook_url
      FROM crawl_tasks t
     WHERE t.task_id = ANY($1::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
"""


async def lock_free_tasks(conn: Conn, task_ids: Sequence[int]) -> dict[int, TaskRow]:
    """Those of the tasks that nobody holds: for loops that come again, and must never wait."""
    rows = await conn.fetch(LOCK_FREE_TASKS, list(task_ids))
    return {row[0]: TaskRow(row[0], row[1], Status(row[2]), *row[3:]) for row in rows}


# Compare and set: only from the status and the attempt that the decision was made on. What a status asks for is written with
# it: a place in the queue or the calendar, a parse lease, the next crawl, the audit row.
CHANGE_TASKS: Final = """
    WITH change AS MATERIALIZED (
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::float8[], $6::smallint[], $7::smallint[],
                             $8::smallint[], $9::smallint[], $10::text[], $11::text[], $12::bytea[], $13::smallint[], $14::int[],
                             $15::bigint[], $16::text[], $17::text[], $18::text[])
               AS c(task_id, source, attempt, target, wait, fetch_errors, blocks, parse_errors, redirects, error, moved_to,
                    page_fact, http_status, response_ms, proxy_id, event, note, paused_from)
    ), changed AS (
        UPDATE crawl_tasks t
           SET status = c.target,
               resting = CASE WHEN c.target IN ('completed', 'failed', 'cancelled', 'paused') THEN c.target END,
               -- Whoever is resumed keeps the time that was set for it.
               scheduled_at = CASE WHEN c.event = 'resumed' AND c.target = 'pending' THEN greatest(t.scheduled_at, now())
                    WHEN c.target = 'pending' THEN now() + make_interval(secs => coalesce(c.wait, 0)) ELSE t.scheduled_at END,
               completed_at = CASE WHEN c.target IN ('completed', 'failed', 'cancelled') THEN now() END,
               next_crawl_at = CASE WHEN t.is_recurring AND c.target IN ('completed', 'failed')
                    THEN now() + CASE c.target WHEN 'failed' THEN 2 ELSE 1 END * coalesce(t.crawl_frequency,
                         (SELECT default_crawl_frequency FROM domains d WHERE d.domain_id = t.domain_id)) END,
               fetch_errors = coalesce(c.fetch_errors, 0), blocks = coalesce(c.blocks, 0),
               parse_errors = coalesce(c.parse_errors, 0), redirects = coalesce(c.redirects, 0),
               -- What a person does is no news from the site.
               error_message = CASE WHEN c.event IN ('paused', 'resumed', 'cancelled') THEN t.error_message ELSE c.error END,
               note = CASE WHEN c.event IN ('paused', 'resumed') THEN t.note ELSE c.note END,
               proxy_id = CASE WHEN c.event IN ('paused', 'resumed', 'cancelled') THEN t.proxy_id ELSE c.proxy_id END,
               awaits_parent = t.awaits_parent AND c.target IN ('pending', 'paused'),
               moved_to = coalesce(c.moved_to, t.moved_to),
               page_fact = coalesce(c.page_fact, t.page_fact),
               asks_if_changed = t.asks_if_changed AND c.page_fact IS NULL AND c.event <> 'page_gone', paused_from = c.paused_from,
               http_status_code = coalesce(c.http_status, t.http_status_code),
               response_time_ms = coalesce(c.response_ms, t.response_time_ms), updated_at = now()
          FROM change c
         WHERE t.task_id = c.task_id AND t.status = c.source AND t.attempt = c.attempt
     RETURNING t.task_id, t.domain_id, t.group_key, t.priority, t.scheduled_at, t.next_crawl_at, t.awaits_parent, c.source,
               c.target, c.event, c.error
    ), queued AS (
        INSERT INTO due_tasks (domain_id, group_key, priority, due_at, task_id)
        SELECT domain_id, coalesce(group_key, ''), priority, scheduled_at, task_id FROM changed
         WHERE target = 'pending' AND scheduled_at <= now() AND NOT awaits_parent
    ), planned AS (
        INSERT INTO waiting_tasks (wake_at, task_id)
        SELECT scheduled_at, task_id FROM changed
         WHERE target = 'pending' AND scheduled_at > now() AND NOT awaits_parent
         UNION ALL
        SELECT next_crawl_at, task_id FROM changed WHERE next_crawl_at IS NOT NULL
    ), leased AS (
        INSERT INTO parse_leases (task_id, lease_until)
        SELECT task_id, now() + CASE target WHEN 'downloaded' THEN interval '0' ELSE $19::interval END FROM changed
         WHERE target IN ('queued_parse', 'downloaded')
        ON CONFLICT (task_id) DO UPDATE SET lease_until = excluded.lease_until
    ), returned AS (
        DELETE FROM parse_leases l USING changed
         WHERE l.task_id = changed.task_id AND changed.source IN ('downloaded', 'queued_parse', 'parsing')
           AND changed.target NOT IN ('downloaded', 'queued_parse', 'parsing')
    )
    INSERT INTO audit (task_id, source, target, event, actor, reason)
    SELECT task_id, source, target, event, $20, error FROM changed WHERE source <> target
"""


async def change_tasks(
    conn: Conn, changes: Sequence[tuple[Status, TaskRow]], *, parse_lease: timedelta, actor: str
) -> None:
    """Write what was decided: (status before, task after). A task that was pending leaves queue and calendar first."""
    if not changes:
        return
    await unqueue(conn, [task.place for source, task in changes if source is Status.PENDING])
    rows = [task for _, task in changes]
    await conn.execute(
        CHANGE_TASKS,
        [task.task_id for task in rows],
        [source.value for source, _ in changes],
        [task.attempt for task in rows],
        [task.status.value for task in rows],
        sparse_counts([task.wait for task in rows]),
        sparse_counts([task.fetch_errors for task in rows]),
        sparse_counts([task.blocks for task in rows]),
        sparse_counts([task.parse_errors for task in rows]),
        sparse_counts([task.redirects for task in rows]),
        sparse([task.error for task in rows]),
        sparse([task.moved_to for task in rows]),
        sparse([task.page.SerializeToString() if task.page is not None else None for task in rows]),
        sparse([task.http_status for task in rows]),
        sparse([task.response_ms for task in rows]),
        sparse([task.proxy_id for task in rows]),
        [task.event for task in rows],
        sparse([task.note for task in rows]),
        sparse([task.paused_from for task in rows]),
        parse_lease,
        actor,
    )


MARK_CRAWLING: Final = """
    WITH marked AS (
        UPDATE crawl_tasks t SET status = 'crawling', started_at = now(), updated_at = now()
          FROM unnest($1::bigint[], $2::int[]) AS s(task_id, attempt)
         WHERE t.task_id = s.task_id AND t.attempt = s.attempt AND t.status = 'queued'
     RETURNING t.task_id
    )
    INSERT INTO audit (task_id, source, target, event, actor)
    SELECT task_id, 'queued', 'crawling', 'fetch_started', 'fetcher' FROM marked
"""


async def mark_crawling(conn: Conn, started: Sequence[tuple[int, int]]) -> None:
    await conn.execute(MARK_CRAWLING, [key[0] for key in started], [key[1] for key in started])


MARK_PARSING: Final = """
    WITH marked AS (
        UPDATE crawl_tasks t SET status = 'parsing', updated_at = now()
          FROM unnest($1::bigint[], $2::int[]) AS s(task_id, attempt)
         WHERE t.task_id = s.task_id AND t.status = 'queued_parse' AND s.attempt BETWEEN t.crawl_base + 1 AND t.attempt
     RETURNING t.task_id
    )
    INSERT INTO audit (task_id, source, target, event, actor)
    SELECT task_id, 'queued_parse', 'parsing', 'parse_started', 'parser' FROM marked
"""


async def mark_parsing(conn: Conn, started: Sequence[tuple[int, int]]) -> None:
    await conn.execute(MARK_PARSING, [key[0] for key in started], [key[1] for key in started])


COUNT_LOSSES: Final = """
    UPDATE crawl_tasks t
       SET fetch_losses = t.fetch_losses + CASE $2 WHEN 'fetch' THEN 1 ELSE 0 END,
           parse_losses = t.parse_losses + CASE $2 WHEN 'parse' THEN 1 ELSE 0 END
     WHERE t.task_id = ANY($1::bigint[])
    RETURNING t.task_id, CASE $2 WHEN 'fetch' THEN t.fetch_losses ELSE t.parse_losses END AS losses
"""


async def count_losses(conn: Conn, task_ids: Sequence[int], *, phase: str) -> dict[int, int]:
    """One more fetch or parse of each was lost; how many that makes."""
    return {row["task_id"]: row["losses"] for row in await conn.fetch(COUNT_LOSSES, list(task_ids), phase)}


# What is due at once goes straight into the queue, the rest into the calendar; a child waits for its parent.
ADD_TASKS: Final = """
    WITH added AS (
        INSERT INTO crawl_tasks (domain_id, url, url_hash, priority, scheduled_at, max_retries, group_key, batch_id, parser_name,
                                 is_recurring, crawl_frequency, created_by, trace_id, kind, parent_task_id, on_parent_failure,
                                 awaits_parent, webhook_url)
        SELECT n.domain_id, n.url, n.url_hash, n.priority, coalesce(n.scheduled_at, now()), n.max_retries, n.group_key, $10,
               n.parser_name, n.is_recurring, n.crawl_frequency, $11, coalesce(n.trace_id, gen_random_uuid()), n.kind,
               n.parent_task_id, n.on_parent_failure, n.awaits_parent, n.webhook_url
          FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::smallint[], $5::timestamptz[], $6::smallint[], $7::text[],
                      $8::text[], $9::boolean[], $12::interval[], $13::uuid[], $14::text[], $15::bigint[], $16::text[],
                      $17::boolean[], $18::text[])
               AS n(domain_id, url, url_hash, priority, scheduled_at, max_retries, group_key, parser_name, is_recurring,
                    crawl_frequency, trace_id, kind, parent_task_id, on_parent_failure, awaits_parent, webhook_url)
         WHERE NOT EXISTS (SELECT FROM crawl_tasks known WHERE known.url_hash = n.url_hash)
         ORDER BY n.url_hash
        ON CONFLICT (url_hash) DO NOTHING
        RETURNING task_id, domain_id, url_hash, scheduled_at, group_key, priority, awaits_parent
    ), queued AS (
        INSERT INTO due_tasks (domain_id, group_key, priority, due_at, task_id)
        SELECT domain_id, coalesce(group_key, ''), priority, scheduled_at, task_id FROM added
         WHERE scheduled_at <= now() AND NOT awaits_parent
    ), planned AS (
        INSERT INTO waiting_tasks (wake_at, task_id)
        SELECT scheduled_at, task_id FROM added WHERE scheduled_at > now() AND NOT awaits_parent
    ), told AS (
        INSERT INTO audit (task_id, target, event, actor) SELECT task_id, 'pending', 'submitted', $11 FROM added
    )
    SELECT task_id, domain_id, url_hash, scheduled_at, group_key, priority, scheduled_at <= now() AND NOT awaits_parent AS is_due
      FROM added
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
        [task.kind for task in tasks],
        [task.parent_task_id for task in tasks],
        [task.on_parent_failure for task in tasks],
        [task.awaits_parent for task in tasks],
        [task.webhook_url for task in tasks],
    )


# A new crawl forgets what the last one counted, unless it is told not to; its page stays until the next one is there.
RECRAWL_TASKS: Final = """
    WITH again AS MATERIALIZED (
        SELECT t.task_id, t.status AS source, t.next_crawl_at FROM crawl_tasks t
          JOIN unnest($1::bigint[], $2::timestamptz[], $3::smallint[]) AS a(task_id, due_at, priority) USING (task_id)
         WHERE t.status = ANY($4::text[])
    ), started AS (
        UPDATE crawl_tasks t
           SET status = 'pending', resting = NULL, batch_id = coalesce($5, t.batch_id), crawl_base = t.attempt,
               scheduled_at = coalesce(a.due_at, now()), priority = coalesce(a.priority, t.priority), completed_at = NULL,
               started_at = NULL,
               fetch_errors = CASE WHEN $8 THEN 0 ELSE t.fetch_errors END,
               fetch_losses = CASE WHEN $8 THEN 0 ELSE t.fetch_losses END,
               blocks = CASE WHEN $8 THEN 0 ELSE t.blocks END,
               parse_errors = CASE WHEN $8 THEN 0 ELSE t.parse_errors END,
               parse_losses = CASE WHEN $8 THEN 0 ELSE t.parse_losses END,
               -- Only a page that was parsed need not be fetched again; a person who asks for it gets it anew.
               asks_if_changed = $6 = 'recrawled' AND again.source = 'completed', redirects = 0, moved_to = NULL, error_message = NULL, note = NULL, next_crawl_at = NULL,
               recrawl_count = t.recrawl_count + CASE WHEN $6 = 'recrawled' THEN 1 ELSE 0 END,
               trace_id = gen_random_uuid(), updated_at = now()
          FROM unnest($1::bigint[], $2::timestamptz[], $3::smallint[]) AS a(task_id, due_at, priority)
          JOIN again USING (task_id)
         WHERE t.task_id = a.task_id AND t.status = ANY($4::text[])
     RETURNING t.task_id, t.domain_id, t.url_hash, t.scheduled_at, t.group_key, t.priority, t.batch_id, again.source,
               again.next_crawl_at
    ), unplanned AS (
        DELETE FROM waiting_tasks w USING started
         WHERE w.wake_at = started.next_crawl_at AND w.task_id = started.task_id
    ), queued AS (
        INSERT INTO due_tasks (domain_id, group_key, priority, due_at, task_id)
        SELECT domain_id, coalesce(group_key, ''), priority, scheduled_at, task_id FROM started WHERE scheduled_at <= now()
    ), planned AS (
        INSERT INTO waiting_tasks (wake_at, task_id) SELECT scheduled_at, task_id FROM started WHERE scheduled_at > now()
    ), told AS (
        INSERT INTO audit (task_id, source, target, event, actor) SELECT task_id, source, 'pending', $6, $7 FROM started
    )
    SELECT task_id, domain_id, url_hash, scheduled_at, group_key, priority, batch_id, scheduled_at <= now() AS is_due FROM started
"""


async def recrawl_tasks(
    conn: Conn,
    wanted: Sequence[tuple[int, datetime | None, int | None]],
    *,
    event: str,
    actor: str,
    batch_id: int | None = None,
    reset: bool = True,
) -> list[Record]:
    """Start a new crawl of ended tasks: (task, when or at once, new priority or none). Their rows are locked by the caller."""
    return await conn.fetch(
        RECRAWL_TASKS,
        [one[0] for one in wanted],
        [one[1] for one in wanted],
        [one[2] for one in wanted],
        [status.value for status in TERMINAL],
        batch_id,
        event,
        actor,
        reset,
    )


# A task that is due moves to its new place in the queue.
PRIORITIZE_TASK: Final = """
    WITH changed AS (
        UPDATE crawl_tasks SET priority = $6, updated_at = now() WHERE task_id = $5 AND priority <> $6 RETURNING task_id
    )
    UPDATE due_tasks d SET priority = $6
      FROM changed
     WHERE d.domain_id = $1 AND d.group_key = $2 AND d.priority = $3 AND d.due_at = $4 AND d.task_id = changed.task_id
    RETURNING d.task_id
"""


async def prioritize_task(conn: Conn, place: Due, priority: int) -> bool:
    """True when it was in the queue. Task and domain are locked by the caller."""
    row = await conn.fetchval(
        PRIORITIZE_TASK, place.domain_id, place.group_key, place.priority, place.due_at, place.task_id, priority
    )
    return row is not None


# Domains are locked already, which elsewhere come after tasks: so this never waits, and raises where it would have to.
LOCK_ENDED: Final = """
    SELECT task_id FROM crawl_tasks
     WHERE url_hash = ANY($1::bytea[]) AND batch_id IS DISTINCT FROM $2 AND status = ANY($3::text[]) AND kind = 'page'
     ORDER BY task_id LIMIT $4 FOR NO KEY UPDATE NOWAIT
"""


async def lock_ended(conn: Conn, digests: Sequence[bytes], *, batch_id: int, limit: int) -> list[int]:
    """Known URLs that ended, and not in this batch."""
    rows = await conn.fetch(LOCK_ENDED, list(digests), batch_id, [status.value for status in TERMINAL], limit)
    return [row["task_id"] for row in rows]


FIND_TASKS: Final = """
    SELECT task_id, url_hash FROM crawl_tasks WHERE url_hash = ANY($1::bytea[])
"""


async def find_tasks(conn: Conn, digests: Sequence[bytes]) -> dict[bytes, int]:
    return {row["url_hash"]: row["task_id"] for row in await conn.fetch(FIND_TASKS, list(digests))}


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
