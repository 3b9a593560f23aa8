"""Attempts: the history of every fetch and parse, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from limpet.kit.pg import Conn, Record
from limpet.scheduler.store.columns import sparse


class Attempt(NamedTuple):
    task_id: int
    attempt: int
    phase: str
    started_at: datetime | None
    outcome: str
    http_status: int | None = None
    response_ms: int | None = None
    proxy_id: int | None = None
    page_key: str | None = None
    error: str | None = None


# No key can span the months, so a repeat is looked for: among the last days only, because no fact lives longer than that.
# The months to come are left out; a day more, because who came first may have begun after us. OFFSET 0 keeps it a lookup of
# each row: joined, it may be planned to read all attempts. A page can be parsed again in the same attempt: another start is
# another parse.
ADD_ATTEMPTS: Final = """
    INSERT INTO attempts (task_id, attempt, phase, started_at, outcome, http_status, response_ms, proxy_id, page_key, error)
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::text[], $4::timestamptz[], $5::text[], $6::smallint[], $7::int[],
                         $8::bigint[], $9::text[], $10::text[])
           AS n(task_id, attempt, phase, started_at, outcome, http_status, response_ms, proxy_id, page_key, error)
     WHERE NOT EXISTS (SELECT FROM attempts a WHERE a.task_id = n.task_id AND a.attempt = n.attempt AND a.phase = n.phase
                          AND (n.phase = 'fetch' OR a.started_at IS NOT DISTINCT FROM n.started_at)
                          AND a.ended_at > now() - interval '2 days' AND a.ended_at < now() + interval '1 day'
                        OFFSET 0)
"""


async def add_attempts(conn: Conn, attempts: Sequence[Attempt]) -> None:
    """A repeated attempt adds nothing. The tasks are locked by the caller, so that nobody adds the same meanwhile."""
    first = {(row[:3], row.started_at if row.phase == "parse" else None): row for row in reversed(attempts)}
    if first:
        await conn.execute(ADD_ATTEMPTS, *(sparse(list(column)) for column in zip(*first.values(), strict=True)))


LIST_ATTEMPTS: Final = """
    SELECT attempt, phase, started_at, ended_at, outcome, http_status, response_ms, proxy_id, page_key, error
      FROM attempts WHERE task_id = $1 ORDER BY attempt, phase, ended_at
"""


async def list_attempts(conn: Conn, task_id: int) -> list[Record]:
    return await conn.fetch(LIST_ATTEMPTS, task_id)
