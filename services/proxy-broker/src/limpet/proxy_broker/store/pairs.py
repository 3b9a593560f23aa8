"""Table pairs: the proxies of a domain's pool. How each does there is in pair_health."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A proxy in a domain's pool, or one that was used for it."""

    domain: str
    proxy_id: int
    assigned: bool
    priority: int
    operator_disabled: bool
    cooling_until: datetime | None
    consecutive_failures: int
    success_count: int
    failure_count: int
    block_count: int
    success_rate: float | None
    avg_response_ms: float | None
    last_used_at: datetime | None
    created_at: datetime
    updated_at: datetime


ASSIGN: Final = """
    INSERT INTO pairs (domain, proxy_id, assigned, priority)
    SELECT $1, proxy_id, true, $3 FROM proxies WHERE proxy_id = $2
    ON CONFLICT (domain, proxy_id) DO UPDATE SET assigned = true, priority = excluded.priority, updated_at = now()
    RETURNING proxy_id
"""


async def assign(conn: Conn, *, domain: str, proxy_id: int, priority: int) -> bool:
    """Put a proxy into a domain's pool; what is known of the pair stays. False: no such proxy."""
    return await conn.fetchval(ASSIGN, domain, proxy_id, priority) is not None


LIST: Final = """
    SELECT domain, proxy_id, assigned, priority, operator_disabled, cooling_until, consecutive_failures, success_count,
           failure_count, block_count, success_count::float8 / nullif(success_count + failure_count, 0) AS success_rate,
           avg_response_ms, last_used_at, created_at, updated_at
      FROM pairs
     WHERE domain = $1 AND proxy_id > $2 AND ($3::bigint IS NULL OR proxy_id = $3)
     ORDER BY proxy_id LIMIT $4
"""


async def list_after(conn: Conn, *, domain: str, after: int, limit: int, only: int | None = None) -> list[Pair]:
    return [Pair(**row) for row in await conn.fetch(LIST, domain, after, only, limit)]
