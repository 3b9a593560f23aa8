"""Permits: who may fetch what now. Granted under the domain's row lock, gone when settled or expired."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from limpet.contracts.events.v1.fetch_pb2 import KnownPage
from limpet.kit.errors import Retryable
from limpet.kit.pg import Conn
from limpet.scheduler.store.queues import Due, unqueue


class Permit(NamedTuple):
    """A granted permit with everything that its order says."""

    task_id: int
    attempt: int
    url: str
    domain: str
    priority: int
    user_agent: str
    parser: str
    proxy_policy: str
    min_body_bytes: int
    follow: bool
    batch: str
    trace_id: UUID
    slot_at: datetime
    start_by: datetime
    give_up_at: datetime
    kind: str = "page"
    group_key: str = ""
    http2: bool = False
    # Names and values, one JSON object.
    headers: str = "{}"
    shadow: bool = False
    ignored_signatures: Sequence[str] = ()
    # The page that the site is asked about: has it changed?
    known: KnownPage | None = None


COUNT_PERMITS: Final = """
    SELECT count(*) FROM permits
"""


async def count_permits(conn: Conn) -> int:
    return int(await conn.fetchval(COUNT_PERMITS))


class Candidate(NamedTuple):
    """A due task, locked, with what its order would say beside what its domain says."""

    task_id: int
    attempt: int
    url: str
    parser: str | None
    follow: bool
    batch: str
    trace_id: UUID
    kind: str
    # Where its row is stored: nobody can move it while it is locked.
    row: tuple[int, int]
    # The page that is known of it, where its site shall be asked whether that has changed.
    page_fact: bytes | None = None


# The domain is locked before its tasks, the other way round than elsewhere: so this never waits for a task.
LOCK_CANDIDATES: Final = """
    SELECT t.task_id, t.attempt, coalesce(t.moved_to, t.url), t.parser_name, coalesce(b.follow, false), coalesce(b.name, ''),
           t.trace_id, t.kind, t.ctid, CASE WHEN t.asks_if_changed THEN t.page_fact END
      FROM crawl_tasks t LEFT JOIN batches b USING (batch_id)
     WHERE t.task_id = ANY($1::bigint[]) AND t.status = 'pending'
       FOR NO KEY UPDATE OF t SKIP LOCKED
"""


async def lock_candidates(conn: Conn, task_ids: Sequence[int]) -> dict[int, Candidate]:
    """The pending ones of these tasks that nobody else holds."""
    return {row[0]: Candidate(*row) for row in await conn.fetch(LOCK_CANDIDATES, list(task_ids))}


# Rows are found by where they are stored, which was read a moment ago: so the size of the tables plays no part.
GRANT_PERMITS: Final = """
    WITH orders AS MATERIALIZED (
        SELECT * FROM unnest($1::bigint[], $2::tid[], $3::tid[], $4::timestamptz[], $5::timestamptz[])
               AS o(task_id, due_row, task_row, slot_at, lease_until)
    ), taken AS (
        DELETE FROM due_tasks d USING orders o WHERE d.ctid = o.due_row AND d.task_id = o.task_id RETURNING d.task_id
    ), granted AS (
        UPDATE crawl_tasks t SET status = 'queued', attempt = t.attempt + 1, note = NULL, updated_at = now()
          FROM orders o WHERE t.ctid = o.task_row AND t.task_id = o.task_id
     RETURNING t.task_id, t.attempt, t.domain_id, t.group_key, o.slot_at, o.lease_until
    ), permitted AS (
        INSERT INTO permits (task_id, attempt, domain_id, group_key, slot_at, lease_until)
        SELECT task_id, attempt, domain_id, group_key, slot_at, lease_until FROM granted
    ), told AS (
        INSERT INTO audit (task_id, source, target, event, actor)
        SELECT task_id, 'pending', 'queued', 'dispatched', 'scheduler' FROM granted
    )
    SELECT (SELECT count(*) FROM granted) AS granted, (SELECT count(*) FROM taken) AS taken
"""


async def grant_permits(
    conn: Conn,
    orders: Sequence[tuple[Due, Candidate]],
    *,
    slots: Sequence[datetime],
    leases: Sequence[datetime],
) -> None:
    """Move locked due tasks from the queue to their permits. One statement, whatever the number."""
    found = await conn.fetch(
        GRANT_PERMITS,
        [task.task_id for _, task in orders],
        [due.row for due, _ in orders],
        [task.row for _, task in orders],
        list(slots),
        list(leases),
    )
    granted, taken = found[0]
    if granted != len(orders):
        raise Retryable("a locked task was not where it had been")
    if taken != len(orders):
        # Somebody put one of them back into the queue meanwhile, elsewhere.
        await unqueue(conn, [due for due, _ in orders])


# Locks go tasks, permits, domains, groups, batches everywhere: no two transactions wait for each other.
RELEASE_PERMITS: Final = """
    WITH gone AS (
        DELETE FROM permits p USING unnest($1::bigint[], $2::int[]) AS used(task_id, attempt)
         WHERE p.task_id = used.task_id AND p.attempt = used.attempt
     RETURNING p.domain_id, p.group_key
    )
    SELECT domain_id, group_key, count(*) AS count FROM gone GROUP BY domain_id, group_key
"""


async def release_permits(conn: Conn, keys: Sequence[tuple[int, int]]) -> list[tuple[int, str | None, int]]:
    """Give permits back; a permit that is gone already gives nothing. Returns domain, group and how many."""
    rows = await conn.fetch(RELEASE_PERMITS, [key[0] for key in keys], [key[1] for key in keys])
    return [(row["domain_id"], row["group_key"], row["count"]) for row in rows]


EXPIRED_PERMITS: Final = """
    SELECT task_id, attempt FROM permits WHERE lease_until < now() ORDER BY lease_until LIMIT $1
"""


async def expired_permits(conn: Conn, *, limit: int) -> list[tuple[int, int]]:
    return [(row["task_id"], row["attempt"]) for row in await conn.fetch(EXPIRED_PERMITS, limit)]


STILL_EXPIRED: Final = """
    SELECT task_id, attempt FROM permits
     WHERE (task_id, attempt) IN (SELECT * FROM unnest($1::bigint[], $2::int[])) AND lease_until < now()
"""


async def still_expired(conn: Conn, keys: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of these, the permits that nobody settled while we waited for the tasks' locks."""
    rows = await conn.fetch(STILL_EXPIRED, [key[0] for key in keys], [key[1] for key in keys])
    return [(row["task_id"], row["attempt"]) for row in rows]
