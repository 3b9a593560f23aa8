"""Table proxies: how each does, how many leases it has out, and when it may be used again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.blame import Health
from limpet.proxy_broker.literals import numbers
from limpet.proxy_broker.policy import Kind

COOL: Final = """
    UPDATE proxies SET cooling_until = statement_timestamp() + $2::interval, updated_at = now()
     WHERE proxy_id = ANY($1::bigint[])
"""


async def cool(conn: Conn, *, proxy_ids: Sequence[int], length: timedelta) -> None:
    """Set aside proxies that we hold locked."""
    await conn.execute(COOL, list(proxy_ids), length)


LOCK: Final = """
    SELECT proxy_id FROM proxies WHERE proxy_id = ANY($1::bigint[]) ORDER BY proxy_id FOR NO KEY UPDATE
"""


async def lock(conn: Conn, *, proxy_ids: Sequence[int]) -> list[int]:
    """Wait for these proxies, always in the order of their ids, so that nobody waits in a circle."""
    return [row["proxy_id"] for row in await conn.fetch(LOCK, list(proxy_ids))]


@dataclass(frozen=True, slots=True)
class Patient:
    """A locked proxy."""

    kind: Kind
    health: Health


LOCK_LEASED: Final = """
    SELECT proxy_id, kind, consecutive_failures, avg_response_ms, cooling_until, relapses, relapsed_at,
           success_share, block_share, shared_at
      FROM proxies
     WHERE proxy_id IN (SELECT proxy_id FROM leases WHERE lease_id = ANY($1::text::bigint[]))
     ORDER BY proxy_id FOR NO KEY UPDATE
"""


async def lock_leased(conn: Conn, *, lease_ids: Sequence[int]) -> dict[int, Patient]:
    """The same for the proxies of these leases, with what we know of each."""
    return {row[0]: Patient(row[1], Health(*row[2:])) for row in await conn.fetch(LOCK_LEASED, numbers(lease_ids))}


RECORD: Final = """
    UPDATE proxies AS proxy
       SET open_leases = proxy.open_leases - new.closed,
           success_count = proxy.success_count + new.successes, failure_count = proxy.failure_count + new.failures,
           block_count = proxy.block_count + new.blocks, consecutive_failures = new.consecutive_failures,
           avg_response_ms = new.avg_response_ms, success_share = new.success_share, block_share = new.block_share,
           shared_at = CASE WHEN new.successes + new.failures + new.blocks > 0 THEN $1 ELSE proxy.shared_at END,
           last_success_at = CASE WHEN new.successes > 0 THEN $1 ELSE proxy.last_success_at END,
           last_failure_at = CASE WHEN new.failures > 0 THEN $1 ELSE proxy.last_failure_at END
      FROM unnest($2::text::bigint[], $3::text::integer[], $4::text::integer[], $5::text::integer[], $6::text::integer[], $7::text::integer[], $8::text::float8[],
                  $9::text::float8[], $10::text::float8[])
           AS new (proxy_id, closed, successes, failures, blocks, consecutive_failures, avg_response_ms, success_share,
                   block_share)
     WHERE proxy.proxy_id = new.proxy_id
"""


async def record(conn: Conn, *, closed: Mapping[int, int], health: Mapping[int, Health], now: datetime) -> None:
    """Write what reports say about locked proxies and give their closed leases back."""
    values = [health[proxy_id] for proxy_id in closed]
    await conn.execute(
        RECORD,
        now,
        numbers(list(closed)),
        numbers(list(closed.values())),
        numbers([value.successes for value in values]),
        numbers([value.failures for value in values]),
        numbers([value.blocks for value in values]),
        numbers([value.consecutive_failures for value in values]),
        numbers([value.avg_response_ms for value in values]),
        numbers([value.success_share for value in values]),
        numbers([value.block_share for value in values]),
    )


SET_ASIDE: Final = """
    UPDATE proxies AS proxy
       SET cooling_until = new.cooling_until, relapses = new.relapses, relapsed_at = new.relapsed_at, updated_at = now()
      FROM unnest($1::bigint[], $2::timestamptz[], $3::integer[], $4::timestamptz[])
           AS new (proxy_id, cooling_until, relapses, relapsed_at)
     WHERE proxy.proxy_id = new.proxy_id
"""


async def set_aside(conn: Conn, *, health: Mapping[int, Health]) -> None:
    """Write the cool-downs of locked proxies."""
    values = health.values()
    await conn.execute(
        SET_ASIDE,
        list(health),
        [value.cooling_until for value in values],
        [value.relapses for value in values],
        [value.relapsed_at for value in values],
    )


GIVE_BACK: Final = """
    UPDATE proxies AS proxy SET open_leases = proxy.open_leases - gone.count
      FROM unnest($1::bigint[], $2::integer[]) AS gone (proxy_id, count)
     WHERE proxy.proxy_id = gone.proxy_id
"""


async def give_back(conn: Conn, *, closed: Mapping[int, int]) -> None:
    """Leases of locked proxies ended without a report: nobody is to blame."""
    await conn.execute(GIVE_BACK, list(closed), list(closed.values()))
