"""The pace of a domain: the columns of its row that politeness is decided by, read and written under its lock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from limpet.kit.pg import Conn, Record
from limpet.scheduler.politeness import Pace
from limpet.scheduler.store.columns import sparse

_FIELDS = tuple(Pace.__dataclass_fields__)


def _paces(rows: Sequence[Record]) -> tuple[list[Pace], datetime | None]:
    """Columns in the order of the fields, then the database's clock: the last row's is no earlier than any of these locks."""
    paces = [Pace(*row[:-1]) for row in rows]
    return paces, rows[-1]["now"] if rows else None


# `clock_timestamp()` would be compared with every domain there is; this one finds its place in the index.
LOCK_READY: Final = """
    SELECT domain_id, name, is_active, crawl_delay_seconds, robots_delay_seconds, max_concurrent_requests, max_per_group,
           obey_robots, robots_unread, robots_version, user_agent, maintenance_start, maintenance_end, maintenance_zone,
           breaker_failures, breaker_rate, breaker_window_seconds, breaker_cooldown_seconds, breaker_successes, in_flight,
           nullif(next_slot_at, '-infinity') AS next_slot_at, nullif(held_until, '-infinity') AS held_until, held_reason,
           nullif(ready_at, 'infinity') AS ready_at, breaker_state, breaker_opened_at, breaker_in_a_row,
           nullif(breaker_window_at, '-infinity') AS breaker_window_at, breaker_good, breaker_bad, breaker_proxies,
           breaker_reason, bearable, nullif(shrunk_at, '-infinity') AS shrunk_at, limit_now, parser_name, proxy_policy,
           min_body_bytes, clock_timestamp() AS now
      FROM domains
     WHERE is_active AND in_flight < limit_now AND domains.ready_at <= statement_timestamp() + $1::interval
     ORDER BY domains.ready_at LIMIT $2
       FOR NO KEY UPDATE SKIP LOCKED
"""


async def lock_ready(conn: Conn, *, lead: timedelta, limit: int) -> tuple[list[Pace], datetime | None]:
    """Domains that something may be granted to, those that wait longest first, and the time."""
    return _paces(await conn.fetch(LOCK_READY, lead, limit))


LOCK_PACES: Final = """
    SELECT domain_id, name, is_active, crawl_delay_seconds, robots_delay_seconds, max_concurrent_requests, max_per_group,
           obey_robots, robots_unread, robots_version, user_agent, maintenance_start, maintenance_end, maintenance_zone,
           breaker_failures, breaker_rate, breaker_window_seconds, breaker_cooldown_seconds, breaker_successes, in_flight,
           nullif(next_slot_at, '-infinity') AS next_slot_at, nullif(held_until, '-infinity') AS held_until, held_reason,
           nullif(ready_at, 'infinity') AS ready_at, breaker_state, breaker_opened_at, breaker_in_a_row,
           nullif(breaker_window_at, '-infinity') AS breaker_window_at, breaker_good, breaker_bad, breaker_proxies,
           breaker_reason, bearable, nullif(shrunk_at, '-infinity') AS shrunk_at, limit_now, clock_timestamp() AS now
      FROM domains WHERE domain_id = ANY($1::bigint[]) ORDER BY domain_id FOR NO KEY UPDATE
"""


async def lock_paces(conn: Conn, domain_ids: Sequence[int]) -> tuple[dict[int, Pace], datetime | None]:
    """By id, locked in one order so that no two transactions wait for each other, and the time."""
    paces, now = _paces(await conn.fetch(LOCK_PACES, list(domain_ids)))
    return {pace.domain_id: pace for pace in paces}, now


READ_PACE: Final = """
    SELECT domain_id, name, is_active, crawl_delay_seconds, robots_delay_seconds, max_concurrent_requests, max_per_group,
           obey_robots, robots_unread, robots_version, user_agent, maintenance_start, maintenance_end, maintenance_zone,
           breaker_failures, breaker_rate, breaker_window_seconds, breaker_cooldown_seconds, breaker_successes, in_flight,
           nullif(next_slot_at, '-infinity') AS next_slot_at, nullif(held_until, '-infinity') AS held_until, held_reason,
           nullif(ready_at, 'infinity') AS ready_at, breaker_state, breaker_opened_at, breaker_in_a_row,
           nullif(breaker_window_at, '-infinity') AS breaker_window_at, breaker_good, breaker_bad, breaker_proxies,
           breaker_reason, bearable, nullif(shrunk_at, '-infinity') AS shrunk_at, limit_now, clock_timestamp() AS now
      FROM domains WHERE name = $1
"""


async def read_pace(conn: Conn, name: str) -> Pace | None:
    """Without its lock: for those who only want to know."""
    paces, _ = _paces(await conn.fetch(READ_PACE, name))
    return paces[0] if paces else None


SAVE_PACES: Final = """
    UPDATE domains d
       SET in_flight = p.in_flight, next_slot_at = coalesce(p.next_slot_at, '-infinity'),
           held_until = coalesce(p.held_until, '-infinity'), held_reason = p.held_reason,
           ready_at = coalesce(p.ready_at, 'infinity'), breaker_state = p.breaker_state,
           breaker_opened_at = p.breaker_opened_at, breaker_in_a_row = p.breaker_in_a_row,
           breaker_window_at = coalesce(p.breaker_window_at, '-infinity'), breaker_good = p.breaker_good,
           breaker_bad = p.breaker_bad, breaker_proxies = p.breaker_proxies, breaker_reason = p.breaker_reason,
           bearable = p.bearable, shrunk_at = coalesce(p.shrunk_at, '-infinity'), limit_now = p.limit_now
      FROM unnest($1::bigint[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::timestamptz[], $7::text[],
                  $8::timestamptz[], $9::int[], $10::timestamptz[], $11::int[], $12::int[], $13::text[], $14::text[],
                  $15::float8[], $16::timestamptz[], $17::int[])
           AS p(domain_id, in_flight, next_slot_at, held_until, held_reason, ready_at, breaker_state, breaker_opened_at,
                breaker_in_a_row, breaker_window_at, breaker_good, breaker_bad, breaker_proxies, breaker_reason, bearable,
                shrunk_at, limit_now)
     WHERE d.domain_id = p.domain_id
"""
_SAVED = ("domain_id", *_FIELDS[_FIELDS.index("in_flight") : _FIELDS.index("limit_now") + 1])


async def save_paces(conn: Conn, paces: Sequence[Pace]) -> None:
    """What was decided. The rows are locked by whoever read them."""
    if paces:
        await conn.execute(SAVE_PACES, *(sparse([getattr(pace, name) for pace in paces]) for name in _SAVED))
