"""Domains: their settings, and the counters that politeness is decided by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from limpet.kit.pg import Conn, Record
from limpet.scheduler.store.groups import open_groups

# What an operator decides about a domain, by column.
SETTINGS = (
    "base_url", "parser_name", "crawl_delay_seconds", "max_concurrent_requests", "max_per_group", "user_agent", "proxy_policy",
    "min_body_bytes", "is_active", "default_crawl_frequency", "obey_robots", "maintenance_start", "maintenance_end",
    "maintenance_zone", "breaker_failures", "breaker_rate", "breaker_window_seconds", "breaker_cooldown_seconds",
    "breaker_successes", "http2", "headers", "validation", "ignored_signatures", "discover", "discover_below",
)  # fmt: skip

ADD_DOMAIN: Final = """
    INSERT INTO domains (name, base_url, parser_name, crawl_delay_seconds, max_concurrent_requests, max_per_group, user_agent,
                         proxy_policy, min_body_bytes, is_active, default_crawl_frequency, obey_robots, maintenance_start,
                         maintenance_end, maintenance_zone, breaker_failures, breaker_rate, breaker_window_seconds,
                         breaker_cooldown_seconds, breaker_successes, http2, headers, validation, ignored_signatures, discover,
                         discover_below, limit_now)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $5)
    ON CONFLICT (name) DO NOTHING
    RETURNING *
"""


async def add_domain(conn: Conn, name: str, values: Mapping[str, Any]) -> Record | None:
    """None when a domain of that name exists."""
    return await conn.fetchrow(ADD_DOMAIN, name, *_columns(values))


def _columns(values: Mapping[str, Any]) -> list[Any]:
    """Headers are one text: a row that was read has them so, a wish does not."""
    found = [values[field] for field in SETTINGS]
    return [json.dumps(value, sort_keys=True) if isinstance(value, dict) else value for value in found]


LOCK_DOMAIN: Final = """
    SELECT * FROM domains WHERE name = $1 FOR NO KEY UPDATE
"""


async def lock_domain(conn: Conn, name: str) -> Record | None:
    return await conn.fetchrow(LOCK_DOMAIN, name)


# A longer delay holds from the last start on; a new limit starts afresh, whatever was bearable below the old one.
CHANGE_DOMAIN: Final = """
    WITH grouped AS (
        UPDATE domain_groups g SET limit_now = greatest(1, least($6::int::float8, g.bearable))
          FROM domains d WHERE d.name = $1 AND g.domain_id = d.domain_id
    )
    UPDATE domains
       SET base_url = $2, parser_name = $3, crawl_delay_seconds = $4, max_concurrent_requests = $5, max_per_group = $6,
           user_agent = $7, proxy_policy = $8, min_body_bytes = $9, is_active = $10, default_crawl_frequency = $11,
           obey_robots = $12, maintenance_start = $13, maintenance_end = $14, maintenance_zone = $15, breaker_failures = $16,
           breaker_rate = $17, breaker_window_seconds = $18, breaker_cooldown_seconds = $19, breaker_successes = $20,
           http2 = $21, headers = $22, validation = $23, ignored_signatures = $24,
           discover = $25, discover_below = $26,
           limit_now = greatest(1, least($5::int::float8, bearable)),
           next_slot_at = CASE WHEN next_slot_at = '-infinity' THEN next_slot_at ELSE next_slot_at + $27::interval END,
           -- Whatever held it may hold no longer: dispatch looks, and decides anew.
           ready_at = least(ready_at, greatest(next_slot_at + $27::interval, now())), updated_at = clock_timestamp()
     WHERE name = $1
    RETURNING *
"""


async def change_domain(conn: Conn, name: str, values: Mapping[str, Any], *, later: timedelta) -> Record | None:
    """All settings anew; the next slot comes so much later."""
    return await conn.fetchrow(CHANGE_DOMAIN, name, *_columns(values), later)


GET_DOMAIN: Final = """
    SELECT * FROM domains WHERE name = $1
"""


async def get_domain(conn: Conn, name: str) -> Record | None:
    return await conn.fetchrow(GET_DOMAIN, name)


LIST_DOMAINS: Final = """
    SELECT * FROM domains WHERE name > $1 ORDER BY name LIMIT $2
"""


async def list_domains(conn: Conn, *, after: str, limit: int) -> list[Record]:
    return await conn.fetch(LIST_DOMAINS, after, limit)


HAS_TASKS: Final = """
    SELECT EXISTS (SELECT FROM crawl_tasks WHERE domain_id = $1 AND kind <> 'robots')
"""


async def has_tasks(conn: Conn, domain_id: int) -> bool:
    return bool(await conn.fetchval(HAS_TASKS, domain_id))


# Its tasks for robots.txt, sitemaps and probes go with it; permits of theirs may be out, and come back to nothing.
DELETE_DOMAIN: Final = """
    WITH gone AS (
        DELETE FROM crawl_tasks WHERE domain_id = $1 AND kind <> 'page' RETURNING task_id, scheduled_at, next_crawl_at
    ), unqueued AS (
        DELETE FROM due_tasks WHERE domain_id = $1
    ), unplanned AS (
        DELETE FROM waiting_tasks w USING gone
         WHERE w.task_id = gone.task_id AND w.wake_at IN (gone.scheduled_at, gone.next_crawl_at)
    ), unpermitted AS (
        DELETE FROM permits WHERE domain_id = $1
    )
    DELETE FROM domains WHERE domain_id = $1 RETURNING *
"""


async def delete_domain(conn: Conn, domain_id: int) -> Record:
    return await conn.fetchrow(DELETE_DOMAIN, domain_id)


GET_DOMAINS: Final = """
    SELECT * FROM domains WHERE domain_id = ANY($1::bigint[]) ORDER BY domain_id
"""


async def get_domains(conn: Conn, ids: Sequence[int]) -> list[Record]:
    return await conn.fetch(GET_DOMAINS, list(ids))


# They stay where they are meanwhile, and nobody waits who does not want to delete one.
FIND_DOMAINS: Final = """
    SELECT domain_id, name FROM domains WHERE name = ANY($1::text[]) ORDER BY domain_id FOR KEY SHARE
"""


async def find_domains(conn: Conn, names: Sequence[str]) -> dict[str, int]:
    return {row["name"]: row["domain_id"] for row in await conn.fetch(FIND_DOMAINS, list(names))}


# What is decided about a site holds for its other hosts; its headers, which may be secret, are for one host only.
COPY_DOMAIN: Final = """
    INSERT INTO domains (name, base_url, parser_name, crawl_delay_seconds, max_concurrent_requests, max_per_group, user_agent,
                         proxy_policy, min_body_bytes, is_active, default_crawl_frequency, obey_robots, maintenance_start,
                         maintenance_end, maintenance_zone, breaker_failures, breaker_rate, breaker_window_seconds,
                         breaker_cooldown_seconds, breaker_successes, http2, validation, ignored_signatures, limit_now)
    SELECT $2, split_part(base_url, ':', 1) || '://' || $2 || '/', parser_name, crawl_delay_seconds, max_concurrent_requests,
           max_per_group, user_agent, proxy_policy, min_body_bytes, is_active, default_crawl_frequency, obey_robots,
           maintenance_start, maintenance_end, maintenance_zone, breaker_failures, breaker_rate, breaker_window_seconds,
           breaker_cooldown_seconds, breaker_successes, http2, validation, ignored_signatures, max_concurrent_requests
      FROM domains WHERE domain_id = $1
    ON CONFLICT (name) DO NOTHING
    RETURNING *
"""


async def copy_domain(conn: Conn, name: str, *, of: int) -> Record | None:
    """A domain with the settings of another one; None where somebody else has just made it."""
    return await conn.fetchrow(COPY_DOMAIN, of, name)


LOCK_DOMAINS: Final = """
    SELECT domain_id, name FROM domains WHERE name = ANY($1::text[]) ORDER BY domain_id FOR NO KEY UPDATE
"""


async def lock_domains(conn: Conn, names: Sequence[str]) -> dict[str, int]:
    """The ids of the domains that exist, by name, locked in one order."""
    return {row["name"]: row["domain_id"] for row in await conn.fetch(LOCK_DOMAINS, list(names))}


LOCK_DOMAIN_IDS: Final = """
    SELECT domain_id, name FROM domains WHERE domain_id = ANY($1::bigint[]) ORDER BY domain_id FOR NO KEY UPDATE
"""


async def lock_domain_ids(conn: Conn, ids: Sequence[int]) -> dict[int, str]:
    return {row["domain_id"]: row["name"] for row in await conn.fetch(LOCK_DOMAIN_IDS, list(ids))}


WAKE_DOMAINS: Final = """
    UPDATE domains SET ready_at = least(ready_at, greatest(next_slot_at, held_until, now()))
     WHERE domain_id = ANY($1::bigint[]) AND ready_at > greatest(next_slot_at, held_until, now())
"""


async def wake_domains(conn: Conn, due: Sequence[tuple[int, str | None, int]]) -> None:
    """Something is due now: (domain, group, priority). The domains are locked by the caller."""
    if due:
        await conn.execute(WAKE_DOMAINS, list({domain_id for domain_id, _, _ in due}))
        await open_groups(conn, due)


COUNT_BY_STATE: Final = """
    SELECT count(*) FILTER (WHERE is_active) AS active,
           count(*) FILTER (WHERE is_active AND breaker_state = 'open') AS open,
           count(*) FILTER (WHERE is_active AND breaker_state = 'half_open') AS half_open,
           count(*) FILTER (WHERE is_active AND breaker_state = 'open'
                              AND breaker_opened_at < now() - interval '30 minutes') AS open_long
      FROM domains
"""


async def count_by_state(conn: Conn) -> dict[str, int]:
    return dict(await conn.fetchrow(COUNT_BY_STATE) or {})
