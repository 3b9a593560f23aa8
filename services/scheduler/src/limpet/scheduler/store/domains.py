"""Domains: their settings, and the counters that politeness is decided by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from limpet.kit.pg import Conn, Record

ADD_DOMAIN: Final = """
    INSERT INTO domains (name, base_url, parser_name, crawl_delay_seconds, slot_tolerance_seconds, max_concurrent_requests,
                         max_per_group, user_agent, proxy_policy, min_body_bytes, default_crawl_frequency)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    ON CONFLICT (name) DO NOTHING
    RETURNING *
"""


async def add_domain(conn: Conn, values: Mapping[str, Any]) -> Record | None:
    """None when a domain of that name exists."""
    return await conn.fetchrow(
        ADD_DOMAIN,
        values["name"],
        values["base_url"],
        values["parser_name"],
        values["crawl_delay_seconds"],
        values["slot_tolerance_seconds"],
        values["max_concurrent_requests"],
        values["max_per_group"],
        values["user_agent"],
        values["proxy_policy"],
        values["min_body_bytes"],
        values["default_crawl_frequency"],
    )


CHANGE_DOMAIN: Final = """
    UPDATE domains
       SET base_url = coalesce($2, base_url), parser_name = coalesce($3, parser_name),
           crawl_delay_seconds = coalesce($4, crawl_delay_seconds),
           slot_tolerance_seconds = coalesce($5, slot_tolerance_seconds),
           max_concurrent_requests = coalesce($6, max_concurrent_requests), max_per_group = coalesce($7, max_per_group),
           user_agent = coalesce($8, user_agent), proxy_policy = coalesce($9, proxy_policy),
           min_body_bytes = coalesce($10, min_body_bytes), is_active = coalesce($11, is_active),
           default_crawl_frequency = coalesce($12, default_crawl_frequency),
           -- A longer delay holds from the last start on.
           next_slot_at = CASE WHEN next_slot_at = '-infinity' THEN next_slot_at ELSE next_slot_at
               + make_interval(secs => greatest(0, coalesce($4 + $5, 0) - crawl_delay_seconds - slot_tolerance_seconds)) END,
           updated_at = now()
     WHERE name = $1
    RETURNING *
"""


async def change_domain(conn: Conn, name: str, values: Mapping[str, Any]) -> Record | None:
    names = (
        "base_url", "parser_name", "crawl_delay_seconds", "slot_tolerance_seconds", "max_concurrent_requests", "max_per_group",
        "user_agent", "proxy_policy", "min_body_bytes", "is_active", "default_crawl_frequency",
    )  # fmt: skip
    return await conn.fetchrow(CHANGE_DOMAIN, name, *(values.get(field) for field in names))


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
    UPDATE domains SET ready_at = least(ready_at, greatest(next_slot_at, held_until, wake.due_at))
      FROM unnest($1::bigint[], $2::timestamptz[]) AS wake(domain_id, due_at)
     WHERE domains.domain_id = wake.domain_id
"""


async def wake_domains(conn: Conn, due: Mapping[int, Any]) -> None:
    """Something of these domains is due at the given time."""
    await conn.execute(WAKE_DOMAINS, list(due), list(due.values()))


GIVE_BACK: Final = """
    UPDATE domains d
       SET in_flight = d.in_flight - back.count,
           held_until = greatest(d.held_until, now() + make_interval(secs => back.hold)),
           held_reason = CASE WHEN back.hold > 0 THEN back.reason ELSE d.held_reason END,
           ready_at = CASE WHEN back.wait IS NULL THEN d.ready_at
                           ELSE greatest(d.next_slot_at, d.held_until, now() + make_interval(secs => back.hold),
                                         least(d.ready_at, now() + make_interval(secs => back.wait))) END
      FROM unnest($1::bigint[], $2::int[], $3::float8[], $4::float8[], $5::text[]) AS back(domain_id, count, hold, wait, reason)
     WHERE d.domain_id = back.domain_id
"""


async def give_back(conn: Conn, changes: Sequence[tuple[int, int, float, float | None, str]]) -> None:
    """Settle a batch with its domains: (domain, permits back, hold seconds, seconds until something is due or None, why held)."""
    if changes:
        await conn.execute(GIVE_BACK, *(list(column) for column in zip(*changes, strict=True)))


GIVE_BACK_GROUPS: Final = """
    UPDATE domain_groups g SET in_flight = g.in_flight - back.count
      FROM unnest($1::bigint[], $2::text[], $3::int[]) AS back(domain_id, group_key, count)
     WHERE g.domain_id = back.domain_id AND g.group_key = back.group_key
"""


async def give_back_groups(conn: Conn, changes: Sequence[tuple[int, str, int]]) -> None:
    if changes:
        await conn.execute(GIVE_BACK_GROUPS, *(list(column) for column in zip(*changes, strict=True)))
