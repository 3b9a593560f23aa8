"""Jobs that read stored pages again, and the pages they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from limpet.kit.pg import Conn


@dataclass(frozen=True, slots=True)
class Wanted:
    """None means any."""

    task_id: int | None = None
    domain: str | None = None
    batch: str | None = None
    scraped_from: datetime | None = None
    scraped_to: datetime | None = None


class Job(NamedTuple):
    job_id: int
    state: str
    task_id: int | None
    domain: str | None
    batch: str | None
    scraped_from: datetime | None
    scraped_to: datetime | None
    parser: str
    dry_run: bool
    created_by: str
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    last_task_id: int
    done_to: int
    total: int
    read_count: int
    written_count: int
    changed_count: int
    same_count: int
    gone_count: int
    failed_count: int
    outdated_count: int
    # JSON text.
    differences: str


class StoredPage(NamedTuple):
    task_id: int
    attempt: int
    domain: str
    batch: str
    url: str
    parser: str
    parser_version: str
    body_key: str
    content_type: str
    charset: str
    scraped_at: datetime


class Counts(NamedTuple):
    """How the pages of one piece ended."""

    read: int = 0
    written: int = 0
    changed: int = 0
    same: int = 0
    gone: int = 0
    failed: int = 0
    outdated: int = 0


# A page that comes later has a task of a later number, or was read by the parsers of now.
ADD_JOB: Final = """
    WITH known AS (
        SELECT count(*)::integer AS total, coalesce(max(task_id), 0) AS last_task_id
          FROM pages
         WHERE ($1::bigint IS NULL OR task_id = $1) AND ($2::text IS NULL OR domain = $2)
           AND ($3::text IS NULL OR batch = $3)
           AND ($4::timestamptz IS NULL OR scraped_at >= $4) AND ($5::timestamptz IS NULL OR scraped_at < $5)
    )
    INSERT INTO reparse_jobs (
        task_id, domain, batch, scraped_from, scraped_to, parser, dry_run, created_by, idempotency_key, total, last_task_id
    )
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, total, last_task_id FROM known
    ON CONFLICT (idempotency_key) DO UPDATE SET idempotency_key = excluded.idempotency_key
 RETURNING job_id
"""


async def add_job(
    conn: Conn, wanted: Wanted, *, parser: str, dry_run: bool, created_by: str, idempotency_key: str | None
) -> int:
    """The id of the job; where the key was used before, of that one."""
    return int(
        await conn.fetchval(
            ADD_JOB,
            wanted.task_id,
            wanted.domain,
            wanted.batch,
            wanted.scraped_from,
            wanted.scraped_to,
            parser,
            dry_run,
            created_by,
            idempotency_key,
        )
    )


READ_JOB: Final = """
    SELECT job_id, state, task_id, domain, batch, scraped_from, scraped_to, parser, dry_run, created_by, created_at,
           updated_at, finished_at, last_task_id, done_to, total, read_count, written_count, changed_count, same_count,
           gone_count, failed_count, outdated_count, differences::text AS differences
      FROM reparse_jobs WHERE job_id = $1
"""


async def read_job(conn: Conn, job_id: int) -> Job | None:
    row = await conn.fetchrow(READ_JOB, job_id)
    return Job(*row) if row is not None else None


# Newest first.
LIST_JOBS: Final = """
    SELECT job_id, state, task_id, domain, batch, scraped_from, scraped_to, parser, dry_run, created_by, created_at,
           updated_at, finished_at, last_task_id, done_to, total, read_count, written_count, changed_count, same_count,
           gone_count, failed_count, outdated_count, differences::text AS differences
      FROM reparse_jobs
     WHERE job_id < $1 AND ($2::text IS NULL OR state = $2)
     ORDER BY job_id DESC
     LIMIT $3
"""


async def list_jobs(conn: Conn, *, state: str | None, before: int, limit: int) -> list[Job]:
    return [Job(*row) for row in await conn.fetch(LIST_JOBS, before, state, limit)]


CANCEL_JOB: Final = """
    UPDATE reparse_jobs SET state = 'cancelled', finished_at = now(), updated_at = now()
     WHERE job_id = $1 AND state = 'running'
"""


async def cancel_job(conn: Conn, job_id: int) -> None:
    await conn.execute(CANCEL_JOB, job_id)


# The one that waited longest: jobs take turns. Whoever held one and died loses it when its time is over.
TAKE_JOB: Final = """
    WITH next AS (
        SELECT job_id FROM reparse_jobs
         WHERE state = 'running' AND held_until <= now()
         ORDER BY held_until
         LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    UPDATE reparse_jobs AS job SET holder = $1, held_until = now() + $2::interval
      FROM next WHERE job.job_id = next.job_id
 RETURNING job.job_id
"""


async def take_job(conn: Conn, *, holder: str, hold: timedelta) -> Job | None:
    job_id = await conn.fetchval(TAKE_JOB, holder, hold)
    return await read_job(conn, job_id) if job_id is not None else None


NEXT_PAGES: Final = """
    SELECT task_id, attempt, domain, batch, url, parser, parser_version, body_key, content_type, charset, scraped_at
      FROM pages
     WHERE task_id > $6 AND task_id <= $7
       AND ($1::bigint IS NULL OR task_id = $1) AND ($2::text IS NULL OR domain = $2)
       AND ($3::text IS NULL OR batch = $3)
       AND ($4::timestamptz IS NULL OR scraped_at >= $4) AND ($5::timestamptz IS NULL OR scraped_at < $5)
     ORDER BY task_id
     LIMIT $8
"""


async def next_pages(conn: Conn, job: Job, *, limit: int) -> list[StoredPage]:
    rows = await conn.fetch(
        NEXT_PAGES, job.task_id, job.domain, job.batch, job.scraped_from, job.scraped_to, job.done_to, job.last_task_id,
        limit,
    )  # fmt: skip
    return [StoredPage(*row) for row in rows]


KEPT_ITEMS: Final = """
    SELECT task_id, data::text AS data FROM items WHERE task_id = ANY ($1::bigint[]) ORDER BY task_id, position
"""


async def kept_items(conn: Conn, task_ids: Sequence[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row in await conn.fetch(KEPT_ITEMS, task_ids):
        found.setdefault(row["task_id"], []).append(row["data"])
    return found


# Nothing where the job was cancelled or another has it now: then the caller's transaction must not happen.
ADVANCE_JOB: Final = """
    UPDATE reparse_jobs
       SET done_to = $3, read_count = read_count + $4, written_count = written_count + $5,
           changed_count = changed_count + $6, same_count = same_count + $7, gone_count = gone_count + $8,
           failed_count = failed_count + $9, outdated_count = outdated_count + $10, differences = $11::text::jsonb,
           held_until = now(), updated_at = now(),
           state = CASE WHEN $12 THEN 'completed' ELSE state END, finished_at = CASE WHEN $12 THEN now() END
     WHERE job_id = $1 AND holder = $2 AND state = 'running'
 RETURNING job_id
"""


async def advance_job(
    conn: Conn, job: Job, *, holder: str, done_to: int, counts: Counts, differences: str, finished: bool
) -> bool:
    done = await conn.fetchval(ADVANCE_JOB, job.job_id, holder, done_to, *counts, differences, finished)
    return done is not None


PRUNE_JOBS: Final = """
    WITH old AS (
        SELECT job_id FROM reparse_jobs WHERE finished_at < now() - $1::interval LIMIT $2
    )
    DELETE FROM reparse_jobs USING old WHERE reparse_jobs.job_id = old.job_id
"""


async def prune_jobs(conn: Conn, *, older_than: timedelta, limit: int) -> int:
    return int((await conn.execute(PRUNE_JOBS, older_than, limit)).split()[-1])
