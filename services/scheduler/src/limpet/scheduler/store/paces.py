"""The pace of a domain: the columns of its row that politeness is decided by, read and written under its lock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from limpet.kit.errors import Retryable
from limpet.kit.pg import Conn, Record
from limpet.scheduler.politeness import Pace
from limpet.scheduler.store.columns import sparse

_FIELDS = tuple(Pace.__dataclass_fields__)


def _paces(rows: Sequence[Record]) -> tuple[list[Pace], datetime | None]:
    """Columns in the order of the fields, then the database's clock: the last row's is no earlier than any of these locks."""
    paces = [Pace(*row[:-1]) for row in rows]
    return paces, rows[-1]["now"] if rows else None


# `clock_timestamp()` would be compared with every domain there is; this one finds its place in the index. OFFSET 0 makes
# the queue lead the way: it could be planned as a walk through all domains. One that has moved before its lock was ours is left.
LOCK_READY: Final = """
    SELECT d.domain_id, name, is_active, crawl_delay_seconds, robots_delay_seconds, max_concurrent_requests, max_per_group,
           obey_robots, robots_unread, robots_version, user_agent, maintenance_start, maintenance_end, maintenance_zone,
           breaker_failures, breaker_rate, breaker_window_seconds, breaker_cooldown_seconds, breaker_successes, in_flight,
           nullif(next_slot_at, '-infinity') AS next_slot_at, nullif(held_until, '-infinity') AS held_until, held_reason,
           nullif(ready_at, 'infinity') AS ready_at, breaker_state, breaker_opened_at, breaker_in_a_row,
           nullif(breaker_window_at, '-infinity') AS breaker_window_at, breaker_good, breaker_bad, breaker_proxies,
           breaker_reason, bearable, nullif(shrunk_at, '-infinity') AS shrunk_at, limit_now, d.place AS stood, d.ctid AS row,
           q.ctid AS queue_row, grouped, parser_name, proxy_policy, min_body_bytes, http2, headers, validation,
           ignored_signatures, clock_timestamp() AS now
      FROM (SELECT place, domain_id, ctid FROM ready_domains
             WHERE place <= statement_timestamp() + $1::interval ORDER BY place OFFSET 0) AS q
      JOIN domains d ON d.domain_id = q.domain_id AND d.place = q.place
     ORDER BY q.place LIMIT $2
       FOR NO KEY UPDATE OF d SKIP LOCKED
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
           breaker_reason, bearable, nullif(shrunk_at, '-infinity') AS shrunk_at, limit_now, place AS stood, ctid AS row,
           clock_timestamp() AS now
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


# Rows are found by where they were read. A domain whose place in the queue has changed moves there.
SAVE_PACES: Final = """
    WITH saved AS (
        UPDATE domains d
           SET in_flight = p.in_flight, next_slot_at = coalesce(p.next_slot_at, '-infinity'),
               held_until = coalesce(p.held_until, '-infinity'), held_reason = p.held_reason,
               ready_at = coalesce(p.ready_at, 'infinity'), breaker_state = p.breaker_state,
               breaker_opened_at = p.breaker_opened_at, breaker_in_a_row = p.breaker_in_a_row,
               breaker_window_at = coalesce(p.breaker_window_at, '-infinity'), breaker_good = p.breaker_good,
               breaker_bad = p.breaker_bad, breaker_proxies = p.breaker_proxies, breaker_reason = p.breaker_reason,
               bearable = p.bearable, shrunk_at = coalesce(p.shrunk_at, '-infinity'), limit_now = p.limit_now, place = p.place
          FROM unnest($1::bigint[], $2::tid[], $3::timestamptz[], $4::timestamptz[], $5::int[], $6::timestamptz[],
                      $7::timestamptz[], $8::text[], $9::timestamptz[], $10::text[], $11::timestamptz[], $12::int[],
                      $13::timestamptz[], $14::int[], $15::int[], $16::text[], $17::text[], $18::float8[], $19::timestamptz[],
                      $20::int[])
               AS p(domain_id, row, stood, place, in_flight, next_slot_at, held_until, held_reason, ready_at, breaker_state,
                    breaker_opened_at, breaker_in_a_row, breaker_window_at, breaker_good, breaker_bad, breaker_proxies,
                    breaker_reason, bearable, shrunk_at, limit_now)
         WHERE d.ctid = p.row AND d.domain_id = p.domain_id
     RETURNING d.domain_id, p.stood, d.place
    ), gone AS (
        DELETE FROM ready_domains q USING saved s
         WHERE q.place = s.stood AND q.domain_id = s.domain_id AND s.stood IS DISTINCT FROM s.place
    ), come AS (
        INSERT INTO ready_domains (place, domain_id)
        SELECT place, domain_id FROM saved WHERE place IS NOT NULL AND stood IS DISTINCT FROM place
    )
    SELECT count(*) FROM saved
"""
_DECIDED = _FIELDS[_FIELDS.index("in_flight") : _FIELDS.index("limit_now") + 1]
_SAVED = ("domain_id", "row", "stood", "place", *_DECIDED)


async def save_paces(conn: Conn, paces: Sequence[Pace]) -> None:
    """What was decided. The rows are locked by whoever read them."""
    if paces:
        saved = await conn.fetchval(SAVE_PACES, *_columns(paces, _SAVED))
        if saved != len(paces):
            raise Retryable("a locked domain was not where it had been")


# Of what is decided about a domain, only what a round of permits can change.
SAVE_SERVED: Final = """
    WITH saved AS (
        UPDATE domains d
           SET place = p.place, in_flight = p.in_flight, next_slot_at = coalesce(p.next_slot_at, '-infinity'),
               ready_at = coalesce(p.ready_at, 'infinity'), breaker_state = p.breaker_state,
               breaker_in_a_row = p.breaker_in_a_row
          FROM unnest($1::bigint[], $2::tid[], $3::tid[], $4::timestamptz[], $5::timestamptz[], $6::int[], $7::timestamptz[],
                      $8::timestamptz[], $9::text[], $10::int[])
               AS p(domain_id, row, queue_row, stood, place, in_flight, next_slot_at, ready_at, breaker_state, breaker_in_a_row)
         WHERE d.ctid = p.row AND d.domain_id = p.domain_id
     RETURNING d.domain_id, p.queue_row, p.stood, d.place
    ), come AS (
        INSERT INTO ready_domains (place, domain_id)
        SELECT place, domain_id FROM saved WHERE place IS NOT NULL AND stood IS DISTINCT FROM place
    )
    DELETE FROM ready_domains q USING saved s
     WHERE q.ctid = s.queue_row AND q.domain_id = s.domain_id AND s.stood IS DISTINCT FROM s.place
"""
_SERVED = (
    "domain_id", "row", "queue_row", "stood", "place", "in_flight", "next_slot_at", "ready_at", "breaker_state",
    "breaker_in_a_row",
)  # fmt: skip


async def save_served(conn: Conn, paces: Sequence[Pace]) -> None:
    """What a round decided about the domains that it locked in their queue."""
    if paces:
        done = await conn.execute(SAVE_SERVED, *_columns(paces, _SERVED))
        if int(done.removeprefix("DELETE ")) != sum(pace.place != pace.stood for pace in paces):
            raise Retryable("a locked domain did not stand where it had stood")


def _columns(paces: Sequence[Pace], names: Sequence[str]) -> list[list[Any]]:
    return [sparse([getattr(pace, name) for pace in paces]) for name in names]
