"""Permits: who may fetch what now. Granted under the domain's row lock, gone when settled or expired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from limpet.kit.pg import Conn


@dataclass(frozen=True)
class Permit:
    """A granted permit with everything that its order says."""

    task_id: int
    attempt: int
    url: str
    domain: str
    priority: int
    user_agent: str
    parser: str
    proxy_policy: str
    min_body_bytes: int
    follow: bool
    batch: str
    trace_id: UUID
    slot_at: datetime
    start_by: datetime
    give_up_at: datetime


# Locked by a statement of its own: the next one sees what everybody committed before, group counters included.
LOCK_READY: Final = """
    SELECT domain_id FROM domains
     WHERE is_active AND in_flight < max_concurrent_requests AND ready_at <= clock_timestamp() + $1::interval
     ORDER BY ready_at LIMIT $2
       FOR NO KEY UPDATE SKIP LOCKED
"""


# The statement below is planned once, not for every round: planning it takes as long as running it. The plan may be made
# while the tables are still empty, so it must use the indexes whatever their size is then.
PLAN_ONCE: Final = """
    SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)
"""

# A bounded number of tasks from each domain, and round robin between them when the window is small. Slots are delay + tolerance apart; without a delay a request may start at any time before the order is stale.
GRANT_PERMITS: Final = """
    WITH clock AS MATERIALIZED (
        SELECT clock_timestamp() AS now, greatest(0, $1::int - (SELECT count(*) FROM permits)) AS window_free
    ), room AS MATERIALIZED (
        SELECT d.domain_id, d.name, d.user_agent, d.parser_name, d.proxy_policy, d.min_body_bytes, d.max_per_group,
               d.slot_tolerance_seconds AS tolerance,
               d.crawl_delay_seconds + d.slot_tolerance_seconds AS spacing,
               greatest(d.next_slot_at, d.held_until, clock.now) AS first_slot,
               clock.now,
               greatest(0, least(
                   d.max_concurrent_requests - d.in_flight,
                   $2::int,
                   CASE WHEN greatest(d.next_slot_at, d.held_until) > clock.now + $3::interval THEN 0
                        WHEN d.crawl_delay_seconds > 0
                        THEN 1 + floor(extract(epoch FROM clock.now + $3::interval - greatest(d.next_slot_at, d.held_until, clock.now))
                                       / (d.crawl_delay_seconds + d.slot_tolerance_seconds))::int
                        ELSE $2::int END
               )) AS room
          FROM domains d, clock
         WHERE d.domain_id = ANY($4::bigint[]) AND clock.window_free > 0
    ), due AS (
        SELECT room.domain_id, found.task_id, found.priority, found.scheduled_at, found.group_key,
               row_number() OVER (PARTITION BY room.domain_id ORDER BY found.priority, found.scheduled_at, found.task_id) AS turn,
               row_number() OVER (PARTITION BY room.domain_id, found.group_key
                                  ORDER BY found.priority, found.scheduled_at, found.task_id)
                   + coalesce(g.in_flight, 0) AS in_group,
               room.max_per_group
          FROM room CROSS JOIN LATERAL (
                   SELECT task.* FROM generate_series(1, 10) AS level CROSS JOIN LATERAL (
                       SELECT t.task_id, t.priority, t.scheduled_at, t.group_key FROM crawl_tasks t
                        WHERE t.domain_id = room.domain_id AND t.status = 'pending' AND t.priority = level
                          AND t.scheduled_at <= room.now
                          AND NOT EXISTS (SELECT FROM domain_groups full_group
                                           WHERE full_group.domain_id = t.domain_id AND full_group.group_key = t.group_key
                                             AND full_group.in_flight >= room.max_per_group)
                        ORDER BY t.scheduled_at LIMIT room.room) AS task
                    ORDER BY task.priority, task.scheduled_at, task.task_id LIMIT room.room) AS found
          LEFT JOIN domain_groups g ON g.domain_id = room.domain_id AND g.group_key = found.group_key
    ), chosen AS (
        SELECT due.task_id FROM due
         WHERE due.group_key IS NULL OR due.in_group <= due.max_per_group
         ORDER BY due.turn, due.priority LIMIT (SELECT window_free FROM clock)
    ), held AS MATERIALIZED (
        SELECT t.task_id, t.domain_id, t.priority, t.scheduled_at, t.group_key
          FROM crawl_tasks t JOIN chosen USING (task_id)
         WHERE t.status = 'pending'
           FOR NO KEY UPDATE OF t SKIP LOCKED
    ), slots AS MATERIALIZED (
        SELECT held.task_id, held.domain_id, held.group_key,
               room.first_slot + make_interval(secs => room.spacing
                   * (row_number() OVER (PARTITION BY held.domain_id ORDER BY held.priority, held.scheduled_at, held.task_id) - 1)) AS slot_at
          FROM held JOIN room USING (domain_id)
    ), granted AS (
        UPDATE crawl_tasks t SET status = 'queued', attempt = t.attempt + 1, updated_at = now()
          FROM slots WHERE t.task_id = slots.task_id AND t.status = 'pending'
     RETURNING t.task_id, t.attempt, coalesce(t.moved_to, t.url) AS url, t.domain_id, t.priority, t.parser_name, t.batch_id,
               t.trace_id, t.group_key, slots.slot_at
    ), permitted AS (
        INSERT INTO permits (task_id, attempt, domain_id, group_key, slot_at, lease_until)
        SELECT granted.task_id, granted.attempt, granted.domain_id, granted.group_key, granted.slot_at,
               granted.slot_at + CASE WHEN room.spacing > 0 THEN make_interval(secs => room.tolerance) ELSE $5::interval END
                   + $6::interval + $7::interval
          FROM granted JOIN room USING (domain_id)
    ), counted AS (
        UPDATE domains d
           SET in_flight = d.in_flight + sums.granted,
               next_slot_at = sums.last_slot + make_interval(secs => d.crawl_delay_seconds + d.slot_tolerance_seconds)
          FROM (SELECT domain_id, count(*) AS granted, max(slot_at) AS last_slot FROM granted GROUP BY domain_id) AS sums
         WHERE d.domain_id = sums.domain_id
    ), grouped AS (
        INSERT INTO domain_groups (domain_id, group_key, in_flight)
        SELECT domain_id, group_key, count(*) FROM granted WHERE group_key IS NOT NULL GROUP BY domain_id, group_key
        ON CONFLICT (domain_id, group_key) DO UPDATE SET in_flight = domain_groups.in_flight + excluded.in_flight
    )
    SELECT granted.task_id, granted.attempt, granted.url, room.name AS domain, granted.priority, room.user_agent,
           coalesce(granted.parser_name, room.parser_name) AS parser, room.proxy_policy, room.min_body_bytes,
           coalesce(b.follow, false) AS follow, coalesce(b.name, '') AS batch, granted.trace_id, granted.slot_at,
           granted.slot_at + CASE WHEN room.spacing > 0 THEN make_interval(secs => room.tolerance) ELSE $5::interval END AS start_by,
           granted.slot_at + CASE WHEN room.spacing > 0 THEN make_interval(secs => room.tolerance) ELSE $5::interval END
               + $6::interval AS give_up_at,
           room.domain_id
      FROM room LEFT JOIN granted USING (domain_id) LEFT JOIN batches b ON b.batch_id = granted.batch_id
     ORDER BY granted.slot_at
"""


# A domain that has nothing due sleeps until its next task is; one that is held up by a full group looks again soon.
SET_READY: Final = """
    UPDATE domains d
       SET ready_at = greatest(d.next_slot_at, d.held_until, coalesce(
               (SELECT CASE WHEN min(first.scheduled_at) <= now() AND NOT d.domain_id = ANY($2::bigint[])
                            THEN now() + interval '100 milliseconds' ELSE min(first.scheduled_at) END
                  FROM generate_series(1, 10) AS level CROSS JOIN LATERAL (
                       SELECT t.scheduled_at FROM crawl_tasks t
                        WHERE t.domain_id = d.domain_id AND t.status = 'pending' AND t.priority = level
                        ORDER BY t.scheduled_at LIMIT 1) AS first),
               'infinity'))
     WHERE d.domain_id = ANY($1::bigint[])
"""


async def grant_permits(
    conn: Conn,
    *,
    window: int,
    per_domain: int,
    lead: object,
    domains: int,
    patience: object,
    timeout: object,
    margin: object,
) -> list[Permit]:
    """Take due tasks of ready domains. Two schedulers never grant the same slot. Call inside a transaction."""
    ready = [row["domain_id"] for row in await conn.fetch(LOCK_READY, lead, domains)]
    if not ready:
        return []
    await conn.execute(PLAN_ONCE)
    rows = await conn.fetch(GRANT_PERMITS, window, per_domain, lead, ready, patience, timeout, margin)
    touched = {row["domain_id"] for row in rows}
    if touched:
        served = {row["domain_id"] for row in rows if row["task_id"] is not None}
        await conn.execute(SET_READY, list(touched), list(served))
    fields = Permit.__dataclass_fields__
    return [Permit(**{name: row[name] for name in fields}) for row in rows if row["task_id"] is not None]


# Locks go tasks, permits, domains, groups, batches everywhere: no two transactions wait for each other.
RELEASE_PERMITS: Final = """
    WITH gone AS (
        DELETE FROM permits p USING unnest($1::bigint[], $2::int[]) AS used(task_id, attempt)
         WHERE p.task_id = used.task_id AND p.attempt = used.attempt
     RETURNING p.domain_id, p.group_key
    )
    SELECT domain_id, group_key, count(*) AS count FROM gone GROUP BY domain_id, group_key
"""


async def release_permits(conn: Conn, keys: Sequence[tuple[int, int]]) -> list[tuple[int, str | None, int]]:
    """Give permits back; a permit that is gone already gives nothing. Returns domain, group and how many."""
    rows = await conn.fetch(RELEASE_PERMITS, [key[0] for key in keys], [key[1] for key in keys])
    return [(row["domain_id"], row["group_key"], row["count"]) for row in rows]


EXPIRED_PERMITS: Final = """
    SELECT task_id, attempt FROM permits WHERE lease_until < now() ORDER BY lease_until LIMIT $1
"""


async def expired_permits(conn: Conn, *, limit: int) -> list[tuple[int, int]]:
    return [(row["task_id"], row["attempt"]) for row in await conn.fetch(EXPIRED_PERMITS, limit)]


STILL_EXPIRED: Final = """
    SELECT task_id, attempt FROM permits
     WHERE (task_id, attempt) IN (SELECT * FROM unnest($1::bigint[], $2::int[])) AND lease_until < now()
"""


async def still_expired(conn: Conn, keys: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of these, the permits that nobody settled while we waited for the tasks' locks."""
    rows = await conn.fetch(STILL_EXPIRED, [key[0] for key in keys], [key[1] for key in keys])
    return [(row["task_id"], row["attempt"]) for row in rows]


COUNT_PERMITS: Final = """
    SELECT count(*) FROM permits
"""


async def count_permits(conn: Conn) -> int:
    return int(await conn.fetchval(COUNT_PERMITS))
