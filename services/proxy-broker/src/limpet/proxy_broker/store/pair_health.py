"""Table pairs: how a proxy does for one domain."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.blame import Health

Key = tuple[str, int]

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
