"""Table pairs: a proxy and a domain; the domain's pool and how each proxy does there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.blame import Health

Key = tuple[str, int]


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


TOUCH: Final = """
    INSERT INTO pairs (domain, proxy_id, last_used_at)
    SELECT used.domain, used.proxy_id, statement_timestamp()
      FROM unnest($1::text[], $2::bigint[]) AS used (domain, proxy_id)
     ORDER BY used.domain, used.proxy_id
    ON CONFLICT (domain, proxy_id) DO UPDATE SET last_used_at = excluded.last_used_at
"""


async def touch(conn: Conn, *, keys: Collection[Key]) -> None:
    """A lease was given: stamp the pair, or begin to remember it."""
    await conn.execute(TOUCH, [domain for domain, _ in keys], [proxy_id for _, proxy_id in keys])


LOCK: Final = """
    SELECT domain, proxy_id, consecutive_failures, success_count, failure_count, block_count, avg_response_ms,
           cooling_until, relapses, relapsed_at, last_success_at, last_failure_at
      FROM pairs
     WHERE (domain, proxy_id) IN (SELECT * FROM unnest($1::text[], $2::bigint[]))
     ORDER BY domain, proxy_id FOR NO KEY UPDATE
"""


async def lock(conn: Conn, *, keys: Collection[Key]) -> dict[Key, Health]:
    """The health of pairs, held until the report is written."""
    rows = await conn.fetch(LOCK, [domain for domain, _ in keys], [proxy_id for _, proxy_id in keys])
    return {
        (row["domain"], row["proxy_id"]): Health(**{field.name: row[field.name] for field in fields(Health)})
        for row in rows
    }


RECORD: Final = """
    UPDATE pairs AS pair
       SET consecutive_failures = new.consecutive_failures, success_count = new.success_count,
           failure_count = new.failure_count, block_count = new.block_count, avg_response_ms = new.avg_response_ms,
           cooling_until = new.cooling_until, relapses = new.relapses, relapsed_at = new.relapsed_at,
           last_success_at = new.last_success_at, last_failure_at = new.last_failure_at
      FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::float8[],
                  $8::timestamptz[], $9::integer[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[])
           AS new (domain, proxy_id, consecutive_failures, success_count, failure_count, block_count, avg_response_ms,
                   cooling_until, relapses, relapsed_at, last_success_at, last_failure_at)
     WHERE pair.domain = new.domain AND pair.proxy_id = new.proxy_id
"""


async def record(conn: Conn, *, health: Mapping[Key, Health]) -> None:
    columns = [[getattr(value, field.name) for value in health.values()] for field in fields(Health)]
    await conn.execute(RECORD, [domain for domain, _ in health], [proxy_id for _, proxy_id in health], *columns)
