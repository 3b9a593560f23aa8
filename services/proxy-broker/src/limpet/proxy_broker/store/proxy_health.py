"""Table proxies: how each does, how many leases it has out, and when it may be used again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.blame import Health

CHARGE: Final = """
    UPDATE proxies AS proxy
       SET open_leases = proxy.open_leases + given.count,
           last_used_at = statement_timestamp(),
           charged_until = greatest(proxy.charged_until, statement_timestamp()) + proxy.charge_every * given.count
      FROM unnest($1::bigint[], $2::integer[]) AS given (proxy_id, count)
     WHERE proxy.proxy_id = given.proxy_id
"""


async def charge(conn: Conn, *, given: Mapping[int, int]) -> None:
    """Count leases against locked proxies: concurrency now, the hour for good."""
    await conn.execute(CHARGE, list(given), list(given.values()))


COOL: Final = """
    UPDATE proxies SET cooling_until = statement_timestamp() + $2::interval, updated_at = now()
     WHERE proxy_id = ANY($1::bigint[])
"""


async def cool(conn: Conn, *, proxy_ids: Sequence[int], length: timedelta) -> None:
    """Set aside proxies that we hold locked."""
    await conn.execute(COOL, list(proxy_ids), length)


@dataclass(frozen=True, kw_only=True)
class Patient(Health):
    """A locked proxy with its health, and the database's time."""

    proxy_id: int
    now: datetime


LOCK: Final = """
    SELECT proxy_id, consecutive_failures, success_count, failure_count, block_count,
           avg_response_ms, cooling_until, relapses, relapsed_at, last_success_at, last_failure_at,
           clock_timestamp() AS now
      FROM proxies
     WHERE proxy_id = ANY($1::bigint[])
     ORDER BY proxy_id FOR NO KEY UPDATE
"""


async def lock(conn: Conn, *, proxy_ids: Sequence[int]) -> list[Patient]:
    """Wait for these proxies, always in the order of their ids, so that nobody waits in a circle."""
    return [Patient(**row) for row in await conn.fetch(LOCK, list(proxy_ids))]


RECORD: Final = """
    UPDATE proxies AS proxy
       SET open_leases = proxy.open_leases - new.closed,
           consecutive_failures = new.consecutive_failures, success_count = new.success_count,
           failure_count = new.failure_count, block_count = new.block_count, avg_response_ms = new.avg_response_ms,
           cooling_until = new.cooling_until, relapses = new.relapses, relapsed_at = new.relapsed_at,
           last_success_at = new.last_success_at, last_failure_at = new.last_failure_at
      FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::float8[],
                  $8::timestamptz[], $9::integer[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[])
           AS new (proxy_id, closed, consecutive_failures, success_count, failure_count, block_count, avg_response_ms,
                   cooling_until, relapses, relapsed_at, last_success_at, last_failure_at)
     WHERE proxy.proxy_id = new.proxy_id
"""


async def record(conn: Conn, *, closed: Mapping[int, int], health: Mapping[int, Health]) -> None:
    """Write the health of locked proxies and give their closed leases back."""
    columns = [[getattr(health[proxy_id], field.name) for proxy_id in closed] for field in fields(Health)]
    await conn.execute(RECORD, list(closed), list(closed.values()), *columns)


GIVE_BACK: Final = """
    UPDATE proxies AS proxy SET open_leases = proxy.open_leases - gone.count
      FROM unnest($1::bigint[], $2::integer[]) AS gone (proxy_id, count)
     WHERE proxy.proxy_id = gone.proxy_id
"""


async def give_back(conn: Conn, *, closed: Mapping[int, int]) -> None:
    """Leases of locked proxies ended without a report: nobody is to blame."""
    await conn.execute(GIVE_BACK, list(closed), list(closed.values()))


END_COOLING: Final = """
    WITH over AS (
        SELECT proxy_id FROM proxies WHERE cooling_until <= statement_timestamp()
         ORDER BY proxy_id FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE proxies AS proxy SET cooling_until = NULL, updated_at = now()
      FROM over WHERE proxy.proxy_id = over.proxy_id
 RETURNING proxy.proxy_id, proxy.operator_disabled
"""


async def end_cooling(conn: Conn) -> dict[int, bool]:
    """Proxies whose cool-down is over, and whether a person keeps them disabled."""
    return {row["proxy_id"]: row["operator_disabled"] for row in await conn.fetch(END_COOLING)}
