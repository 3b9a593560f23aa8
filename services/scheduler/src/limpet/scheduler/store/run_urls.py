"""What the list pages of runs held: added as they are read, made tasks of all at once, deleted when the run is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from limpet.kit.pg import Conn, Record

# In the order of their key everywhere, so that no two transactions wait for each other.
ADD_URLS: Final = """
    WITH added AS (
        INSERT INTO run_urls (run_id, url_hash, start_no, url)
        SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::int[], $4::text[])
               AS n(run_id, url_hash, start_no, url) ORDER BY run_id, url_hash, start_no
        ON CONFLICT DO NOTHING RETURNING run_id, start_no
    )
    SELECT run_id, start_no, count(*) AS count FROM added GROUP BY run_id, start_no
"""


async def add_urls(conn: Conn, urls: Sequence[tuple[UUID, bytes, int, str]]) -> dict[tuple[UUID, int], int]:
    """(run, identity, start page, URL). How many of each start page were new to it."""
    if not urls:
        return {}
    rows = await conn.fetch(ADD_URLS, *([one[at] for one in urls] for at in range(4)))
    return {(row["run_id"], row["start_no"]): row["count"] for row in rows}


COUNT_URLS: Final = """
    SELECT count(*) FROM (SELECT FROM run_urls WHERE run_id = $1 AND start_no = ANY($2::int[]) GROUP BY url_hash) AS each
"""


async def count_urls(conn: Conn, run_id: UUID, *, starts: Sequence[int], seconds: float) -> int:
    """Different URLs of these start pages."""
    return int(await conn.fetchval(COUNT_URLS, run_id, list(starts), timeout=seconds))


# A site may have a million URLs: they do not travel, and all of them become tasks in this one statement. What is known stays
# as it is. The queue gets them with the tasks; the domain is woken after the commit, so that nobody waits for its lock meanwhile.
PUBLISH_URLS: Final = """
    WITH added AS (
        INSERT INTO crawl_tasks (domain_id, url, url_hash, priority, max_retries, batch_id, parser_name, is_recurring, created_by)
        SELECT DISTINCT ON (u.url_hash) $3, u.url, u.url_hash, $4, $5, $6, $7, false, $8
          FROM run_urls u WHERE u.run_id = $1 AND u.start_no = ANY($2::int[]) ORDER BY u.url_hash, u.start_no
        ON CONFLICT (url_hash) DO NOTHING
        RETURNING task_id, priority, scheduled_at
    ), queued AS (
        INSERT INTO due_tasks (domain_id, group_key, priority, due_at, task_id)
        SELECT $3, '', priority, scheduled_at, task_id FROM added
    ), told AS (
        INSERT INTO audit (task_id, target, event, actor) SELECT task_id, 'pending', 'submitted', $8 FROM added
    ), counted AS (
        UPDATE batches b SET pages = b.pages + a.count, open_tasks = b.open_tasks + a.count
          FROM (SELECT count(*) AS count FROM added) AS a WHERE b.batch_id = $6
    )
    SELECT count(*) FROM added
"""


class Publication(NamedTuple):
    """What the tasks of a run have in common."""

    domain_id: int
    priority: int
    max_retries: int
    batch_id: int
    parser_name: str | None
    created_by: str


async def publish_urls(conn: Conn, run_id: UUID, common: Publication, *, starts: Sequence[int], seconds: float) -> int:
    """Make tasks of all that is not known yet. Returns how many there were. Call inside a transaction."""
    return int(await conn.fetchval(PUBLISH_URLS, run_id, list(starts), *common, timeout=seconds))


LIST_URLS: Final = """
    SELECT url_hash, start_no, url FROM run_urls
     WHERE run_id = $1 AND (url_hash, start_no) > ($2, $3) AND ($4::int IS NULL OR start_no = $4)
     ORDER BY url_hash, start_no LIMIT $5
"""


async def list_urls(
    conn: Conn, run_id: UUID, *, after: tuple[bytes, int], start_no: int | None, limit: int
) -> list[Record]:
    """What has been collected so far; nothing once the run has been committed."""
    return await conn.fetch(LIST_URLS, run_id, after[0], after[1], start_no, limit)


# Known pages of a committed run whose last crawl is over. Those of its own batch are crawled already.
ENDED_KNOWN: Final = """
    SELECT t.task_id FROM unnest($1::bytea[]) AS u(url_hash) JOIN crawl_tasks t USING (url_hash)
     WHERE t.kind = 'page' AND t.resting IN ('completed', 'failed', 'cancelled') AND t.batch_id IS DISTINCT FROM $2
"""


async def ended_known(conn: Conn, digests: Sequence[bytes], *, batch_id: int | None) -> list[int]:
    return [row["task_id"] for row in await conn.fetch(ENDED_KNOWN, list(digests), batch_id)]


PEEK_URLS: Final = """
    SELECT url_hash, start_no FROM run_urls WHERE run_id = $1 ORDER BY url_hash, start_no LIMIT $2 FOR UPDATE
"""


async def peek_urls(conn: Conn, run_id: UUID, *, limit: int) -> list[tuple[bytes, int]]:
    """The first ones, locked: two schedulers never take the same."""
    return [(row["url_hash"], row["start_no"]) for row in await conn.fetch(PEEK_URLS, run_id, limit)]


DROP_URLS: Final = """
    DELETE FROM run_urls u USING unnest($2::bytea[], $3::int[]) AS gone(url_hash, start_no)
     WHERE u.run_id = $1 AND u.url_hash = gone.url_hash AND u.start_no = gone.start_no
"""


async def drop_urls(conn: Conn, run_id: UUID, keys: Sequence[tuple[bytes, int]]) -> None:
    await conn.execute(DROP_URLS, run_id, [key[0] for key in keys], [key[1] for key in keys])


PRUNE_URLS: Final = """
    DELETE FROM run_urls WHERE (run_id, url_hash, start_no) IN (
        SELECT u.run_id, u.url_hash, u.start_no
          FROM runs r CROSS JOIN LATERAL (
               SELECT run_id, url_hash, start_no FROM run_urls WHERE run_id = r.run_id LIMIT $2) AS u
         WHERE r.state = 'aborted' AND r.ended_at < now() - $1::interval LIMIT $2)
    RETURNING run_id
"""


async def prune_urls(conn: Conn, *, kept: timedelta, limit: int) -> int:
    """Forget what runs had collected that were aborted long ago."""
    return len(await conn.fetch(PRUNE_URLS, kept, limit))
