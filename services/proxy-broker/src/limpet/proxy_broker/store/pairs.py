"""Table pairs: the proxies of a domain's pool. How each does there is in pair_health."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from limpet.kit.pg import Conn

State = Literal["active", "cooling", "blocked", "disabled"]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A proxy in a domain's pool, or one that was used for it."""

    domain: str
    proxy_id: int
    assigned: bool
    priority: int
    operator_disabled: bool
    # Of pair and proxy together: whether a lease for this domain may have it.
    state: State
    cooling_until: datetime | None
    blocked_until: datetime | None
    consecutive_failures: int
    success_count: int
    failure_count: int
    block_count: int
    success_rate: float | None
    avg_response_ms: float | None
    last_used_at: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """An entry of a domain's blocklist."""

    proxy_id: int
    block_count: int
    last_blocked_at: datetime | None
    last_error: str
    blocked_until: datetime


ASSIGN: Final = """
    INSERT INTO pairs (domain, proxy_id, assigned, priority)
    SELECT $1, proxy_id, true, $3 FROM proxies WHERE proxy_id = $2 FOR KEY SHARE
    ON CONFLICT (domain, proxy_id) DO UPDATE SET assigned = true, priority = excluded.priority, updated_at = now()
    RETURNING proxy_id
"""


async def assign(conn: Conn, *, domain: str, proxy_id: int, priority: int) -> bool:
    """Put a proxy into a domain's pool; what is known of the pair stays. False: no such proxy, or not any more."""
    return await conn.fetchval(ASSIGN, domain, proxy_id, priority) is not None


ASSIGN_MANY: Final = """
    INSERT INTO pairs (domain, proxy_id, assigned, priority)
    SELECT $1, proxy_id, true, wanted.priority
      FROM unnest($2::bigint[], $3::integer[]) AS wanted (proxy_id, priority) JOIN proxies USING (proxy_id)
     ORDER BY proxy_id FOR KEY SHARE OF proxies
    ON CONFLICT (domain, proxy_id) DO UPDATE SET assigned = true, priority = excluded.priority, updated_at = now()
    RETURNING proxy_id
"""


async def assign_many(conn: Conn, *, domain: str, proxy_ids: Sequence[int], priorities: Sequence[int]) -> set[int]:
    """Which of these distinct proxies are in the pool now; the others do not exist."""
    rows = await conn.fetch(ASSIGN_MANY, domain, list(proxy_ids), list(priorities))
    return {row["proxy_id"] for row in rows}


UNASSIGN: Final = """
    UPDATE pairs SET assigned = false, updated_at = now()
     WHERE domain = $1 AND proxy_id = $2 AND assigned
 RETURNING proxy_id
"""


async def unassign(conn: Conn, *, domain: str, proxy_id: int) -> bool:
    """Out of the pool; how it did there is remembered."""
    return await conn.fetchval(UNASSIGN, domain, proxy_id) is not None


DECIDE: Final = """
    UPDATE pairs
       SET operator_disabled = coalesce($3, operator_disabled), priority = coalesce($4, priority),
           -- A person trusts the pair again: what the broker decided about it ends as well.
           cooling_until = CASE WHEN $3 IS FALSE THEN NULL ELSE cooling_until END,
           blocked_until = CASE WHEN $3 IS FALSE THEN NULL ELSE blocked_until END,
           consecutive_failures = CASE WHEN $3 IS FALSE THEN 0 ELSE consecutive_failures END,
           relapses = CASE WHEN $3 IS FALSE THEN 0 ELSE relapses END,
           updated_at = now()
     WHERE domain = $1 AND proxy_id = $2
 RETURNING proxy_id
"""


async def decide(
    conn: Conn, *, domain: str, proxy_id: int, operator_disabled: bool | None, priority: int | None
) -> bool:
    """A person's decision about a pair; None leaves it as it is."""
    return await conn.fetchval(DECIDE, domain, proxy_id, operator_disabled, priority) is not None


LIST: Final = """
    SELECT pair.domain, pair.proxy_id, pair.assigned, pair.priority, pair.operator_disabled,
           CASE WHEN pair.operator_disabled OR proxy.operator_disabled THEN 'disabled'
                WHEN pair.blocked_until > statement_timestamp() THEN 'blocked'
                WHEN greatest(pair.cooling_until, proxy.cooling_until) > statement_timestamp() THEN 'cooling'
                ELSE 'active' END AS state,
           greatest(pair.cooling_until, proxy.cooling_until) AS cooling_until, pair.blocked_until,
           pair.consecutive_failures, pair.success_count, pair.failure_count, pair.block_count,
           pair.success_count::float8 / nullif(pair.success_count + pair.failure_count, 0) AS success_rate,
           pair.avg_response_ms, pair.last_used_at, pair.last_success_at, pair.last_failure_at, pair.created_at,
           pair.updated_at
      FROM pairs AS pair JOIN proxies AS proxy USING (proxy_id)
     WHERE pair.domain = $1 AND pair.proxy_id > $2 AND ($3::bigint IS NULL OR pair.proxy_id = $3)
       AND ($5::boolean IS NULL OR pair.assigned = $5)
     ORDER BY pair.proxy_id LIMIT $4
"""


async def list_after(
    conn: Conn, *, domain: str, after: int, limit: int, only: int | None = None, assigned: bool | None = None
) -> list[Pair]:
    return [Pair(**row) for row in await conn.fetch(LIST, domain, after, only, limit, assigned)]


BLOCKED_OF: Final = """
    SELECT domain, array_agg(proxy_id ORDER BY proxy_id) AS proxy_ids FROM pairs
     WHERE domain = ANY($1::text[]) AND blocked_until > statement_timestamp() GROUP BY domain ORDER BY domain
"""


async def blocked_of(conn: Conn, domains: Sequence[str]) -> dict[str, list[int]]:
    """The blocklists of these domains; those that have none are left out."""
    return {row["domain"]: row["proxy_ids"] for row in await conn.fetch(BLOCKED_OF, list(domains))}


LIST_BLOCKED: Final = """
    SELECT proxy_id, block_count, last_blocked_at, last_error, blocked_until
      FROM pairs
     WHERE domain = $1 AND proxy_id > $2 AND blocked_until > statement_timestamp()
     ORDER BY proxy_id LIMIT $3
"""


async def list_blocked(conn: Conn, *, domain: str, after: int, limit: int) -> list[Blocked]:
    return [Blocked(**row) for row in await conn.fetch(LIST_BLOCKED, domain, after, limit)]
