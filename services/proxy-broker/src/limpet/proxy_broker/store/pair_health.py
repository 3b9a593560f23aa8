"""Table pairs: how a proxy does for one domain."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.blame import Health
from limpet.proxy_broker.literals import numbers, texts
from limpet.proxy_broker.tally import PairKey

Key = PairKey

LOCK: Final = """
    SELECT domain, proxy_id, consecutive_failures, avg_response_ms, cooling_until, relapses, relapsed_at,
           success_share, block_share, shared_at, blocked_until
      FROM pairs
     WHERE (domain, proxy_id) IN (SELECT * FROM unnest($1::text::text[], $2::text::bigint[]))
     ORDER BY domain, proxy_id FOR NO KEY UPDATE
"""


async def lock(conn: Conn, *, keys: Collection[Key]) -> dict[Key, Health]:
    """The health of pairs, held until the report is written."""
    names, ids = [domain for domain, _ in keys], [proxy_id for _, proxy_id in keys]
    rows = await conn.fetch(LOCK, texts(names), numbers(ids))
    return {(row[0], row[1]): Health(*row[2:]) for row in rows}


ADD: Final = """
    INSERT INTO pairs (domain, proxy_id)
    SELECT new.domain, new.proxy_id FROM unnest($1::text[], $2::bigint[]) AS new (domain, proxy_id)
     ORDER BY new.domain, new.proxy_id
    ON CONFLICT (domain, proxy_id) DO NOTHING
"""


async def add(conn: Conn, *, keys: Collection[Key]) -> None:
    """Begin to remember pairs of locked proxies."""
    await conn.execute(ADD, [domain for domain, _ in keys], [proxy_id for _, proxy_id in keys])


RECORD: Final = """
    UPDATE pairs AS pair
       SET last_used_at = $1,
           success_count = pair.success_count + new.successes, failure_count = pair.failure_count + new.failures,
           block_count = pair.block_count + new.blocks, byte_count = pair.byte_count + new.byte_count,
           consecutive_failures = new.consecutive_failures, avg_response_ms = new.avg_response_ms,
           success_share = new.success_share, block_share = new.block_share,
           shared_at = CASE WHEN new.successes + new.failures > 0 THEN $1 ELSE pair.shared_at END,
           last_success_at = CASE WHEN new.successes > 0 THEN $1 ELSE pair.last_success_at END,
           last_failure_at = CASE WHEN new.failures > 0 THEN $1 ELSE pair.last_failure_at END
      FROM unnest($2::text::text[], $3::text::bigint[], $4::text::integer[], $5::text::integer[], $6::text::integer[], $7::text::bigint[], $8::text::integer[],
                  $9::text::float8[], $10::text::float8[], $11::text::float8[])
           AS new (domain, proxy_id, successes, failures, blocks, byte_count, consecutive_failures, avg_response_ms,
                   success_share, block_share)
     WHERE pair.domain = new.domain AND pair.proxy_id = new.proxy_id
"""


async def record(conn: Conn, *, health: Mapping[Key, Health], now: datetime) -> None:
    """Write what reports say about locked pairs."""
    values = health.values()
    await conn.execute(
        RECORD,
        now,
        texts([domain for domain, _ in health]),
        numbers([proxy_id for _, proxy_id in health]),
        numbers([value.successes for value in values]),
        numbers([value.failures for value in values]),
        numbers([value.blocks for value in values]),
        numbers([value.byte_count for value in values]),
        numbers([value.consecutive_failures for value in values]),
        numbers([value.avg_response_ms for value in values]),
        numbers([value.success_share for value in values]),
        numbers([value.block_share for value in values]),
    )


SET_ASIDE: Final = """
    UPDATE pairs AS pair
       SET consecutive_failures = new.consecutive_failures, cooling_until = new.cooling_until, relapses = new.relapses,
           relapsed_at = new.relapsed_at, blocked_until = new.blocked_until,
           last_blocked_at = CASE WHEN new.blocks > 0 THEN $1 ELSE pair.last_blocked_at END,
           last_error = CASE WHEN new.last_error = '' THEN pair.last_error ELSE new.last_error END
      FROM unnest($2::text[], $3::bigint[], $4::integer[], $5::timestamptz[], $6::integer[], $7::timestamptz[],
                  $8::timestamptz[], $9::integer[], $10::text[])
           AS new (domain, proxy_id, consecutive_failures, cooling_until, relapses, relapsed_at, blocked_until, blocks,
                   last_error)
     WHERE pair.domain = new.domain AND pair.proxy_id = new.proxy_id
"""


async def set_aside(conn: Conn, *, health: Mapping[Key, Health], now: datetime) -> None:
    """Write cool-downs and the blocklist of locked pairs: those that failed, and those that are forgiven."""
    values = health.values()
    await conn.execute(
        SET_ASIDE,
        now,
        [domain for domain, _ in health],
        [proxy_id for _, proxy_id in health],
        [value.consecutive_failures for value in values],
        [value.cooling_until for value in values],
        [value.relapses for value in values],
        [value.relapsed_at for value in values],
        [value.blocked_until for value in values],
        [value.blocks for value in values],
        [value.last_error for value in values],
    )
