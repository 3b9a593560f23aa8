"""Pools: the proxies that a domain may use now, taken under lock, or looked at without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.refusal import Survey
from limpet.proxy_broker.strategy import Candidate


@dataclass(frozen=True, kw_only=True)
class Group:
    """Wants that the same proxies can serve: one domain, one country or any (empty)."""

    group: int
    domain: str
    country: str
    pooled: bool


POOLED: Final = "SELECT DISTINCT domain FROM pairs WHERE domain = ANY($1::text[]) AND assigned"


async def pooled(conn: Conn, *, domains: Sequence[str]) -> set[str]:
    """Which domains have a pool of their own. One whose pool is all disabled still has it."""
    return {row["domain"] for row in await conn.fetch(POOLED, list(domains))}


TAKE_OWN: Final = """
    SELECT want.grp AS group, free.*
      FROM unnest($1::integer[], $2::text[], $3::text[]) AS want (grp, domain, country)
     CROSS JOIN LATERAL (
        SELECT proxy.proxy_id, pair.priority, proxy.protocol, proxy.host, proxy.port, proxy.username,
               proxy.password_sealed,
               least(
                   proxy.max_concurrent_leases - proxy.open_leases,
                   floor(extract(epoch FROM statement_timestamp() + proxy.charge_ahead
                                 - greatest(proxy.charged_until, statement_timestamp()))
                         / extract(epoch FROM proxy.charge_every) + 0.000001)::integer + 1,
                   CASE WHEN proxy.consecutive_failures >= $5 THEN 1 - proxy.open_leases END,
                   CASE WHEN pair.consecutive_failures >= $6 THEN 1 END
               ) AS room
          FROM pairs AS pair
          JOIN proxies AS proxy USING (proxy_id)
         WHERE pair.domain = want.domain AND pair.assigned AND NOT pair.operator_disabled
           AND (pair.cooling_until IS NULL OR pair.cooling_until <= statement_timestamp())
           AND NOT proxy.operator_disabled
           AND (proxy.cooling_until IS NULL OR proxy.cooling_until <= statement_timestamp())
           AND proxy.open_leases
               < CASE WHEN proxy.consecutive_failures >= $5 THEN 1 ELSE proxy.max_concurrent_leases END
           AND (proxy.charged_until - proxy.charge_ahead <= statement_timestamp()) IS NOT FALSE
           AND (want.country = '' OR proxy.country_code = want.country)
         ORDER BY pair.priority, pair.last_used_at NULLS FIRST, proxy.last_used_at NULLS FIRST, proxy.proxy_id
         LIMIT $4 FOR NO KEY UPDATE OF proxy SKIP LOCKED
     ) AS free
"""


async def take_own(
    conn: Conn, *, groups: Sequence[Group], limit: int, proxy_failures: int, pair_failures: int
) -> list[Candidate]:
    """Lock what may be leased now of the domains' own pools, least recently used first within priority.

    After a cool-down one lease at a time shows whether the proxy is well again.
    """
    rows = await conn.fetch(TAKE_OWN, *_columns(groups), limit, proxy_failures, pair_failures)
    return [Candidate(**row) for row in rows]


TAKE_SHARED: Final = """
    SELECT want.grp AS group, free.*
      FROM unnest($1::integer[], $2::text[], $3::text[]) AS want (grp, domain, country)
     CROSS JOIN LATERAL (
        SELECT proxy.proxy_id, 5 AS priority, proxy.protocol, proxy.host, proxy.port, proxy.username,
               proxy.password_sealed,
               least(
                   proxy.max_concurrent_leases - proxy.open_leases,
                   floor(extract(epoch FROM statement_timestamp() + proxy.charge_ahead
                                 - greatest(proxy.charged_until, statement_timestamp()))
                         / extract(epoch FROM proxy.charge_every) + 0.000001)::integer + 1,
                   CASE WHEN proxy.consecutive_failures >= $5 THEN 1 - proxy.open_leases END,
                   CASE WHEN pair.consecutive_failures >= $6 THEN 1 END
               ) AS room
          FROM proxies AS proxy
          LEFT JOIN pairs AS pair ON pair.proxy_id = proxy.proxy_id AND pair.domain = want.domain
         WHERE NOT EXISTS (SELECT FROM pairs AS other WHERE other.proxy_id = proxy.proxy_id AND other.assigned)
           AND NOT coalesce(pair.operator_disabled, false)
           AND (pair.cooling_until IS NULL OR pair.cooling_until <= statement_timestamp())
           AND NOT proxy.operator_disabled
           AND (proxy.cooling_until IS NULL OR proxy.cooling_until <= statement_timestamp())
           AND proxy.open_leases
               < CASE WHEN proxy.consecutive_failures >= $5 THEN 1 ELSE proxy.max_concurrent_leases END
           AND (proxy.charged_until - proxy.charge_ahead <= statement_timestamp()) IS NOT FALSE
           AND (want.country = '' OR proxy.country_code = want.country)
         ORDER BY proxy.last_used_at NULLS FIRST, proxy.proxy_id
         LIMIT $4 FOR NO KEY UPDATE OF proxy SKIP LOCKED
     ) AS free
"""


async def take_shared(
    conn: Conn, *, groups: Sequence[Group], limit: int, proxy_failures: int, pair_failures: int
) -> list[Candidate]:
    """The same for domains without a pool: every proxy that is in no domain's pool is shared."""
    rows = await conn.fetch(TAKE_SHARED, *_columns(groups), limit, proxy_failures, pair_failures)
    return [Candidate(**row) for row in rows]


SURVEY: Final = """
    SELECT want.grp AS group, statement_timestamp() AS now,
           count(member.proxy_id)::integer AS members,
           count(*) FILTER (WHERE fits)::integer AS fitting,
           count(*) FILTER (WHERE fits AND enabled)::integer AS enabled,
           count(*) FILTER (WHERE fits AND enabled AND ready_at <= statement_timestamp())::integer AS ready,
           count(*) FILTER (WHERE fits AND enabled AND ready_at > statement_timestamp() AND NOT cooling)::integer
               AS limited,
           min(ready_at) FILTER (WHERE fits AND enabled) AS ready_at,
           coalesce((array_agg(member.proxy_id ORDER BY member.last_used_at NULLS FIRST)
                     FILTER (WHERE fits AND enabled AND has_room AND ready_at <= statement_timestamp()))[1:$5],
                    '{}') AS free
      FROM unnest($1::integer[], $2::text[], $3::text[], $4::boolean[]) AS want (grp, domain, country, pooled)
      LEFT JOIN LATERAL (
        SELECT proxy.proxy_id, proxy.last_used_at,
               want.country = '' OR proxy.country_code = want.country AS fits,
               NOT proxy.operator_disabled AND NOT coalesce(pair.operator_disabled, false) AS enabled,
               coalesce(greatest(proxy.cooling_until, pair.cooling_until) > statement_timestamp(), false) AS cooling,
               greatest(proxy.cooling_until, pair.cooling_until, proxy.charged_until - proxy.charge_ahead,
                        statement_timestamp()) AS ready_at,
               proxy.open_leases
                   < CASE WHEN proxy.consecutive_failures >= $6 THEN 1 ELSE proxy.max_concurrent_leases END AS has_room
          FROM proxies AS proxy
          LEFT JOIN pairs AS pair ON pair.proxy_id = proxy.proxy_id AND pair.domain = want.domain
         WHERE CASE WHEN want.pooled THEN coalesce(pair.assigned, false)
                    ELSE NOT EXISTS (SELECT FROM pairs AS other
                                      WHERE other.proxy_id = proxy.proxy_id AND other.assigned) END
      ) AS member ON true
     GROUP BY want.grp
"""


async def survey(conn: Conn, *, groups: Sequence[Group], limit: int, proxy_failures: int) -> list[Survey]:
    """Why a pool gave too little: what is in it, in which state, and what others hold locked at this moment."""
    pools = [group.pooled for group in groups]
    rows = await conn.fetch(SURVEY, *_columns(groups), pools, limit, proxy_failures)
    return [Survey(**row) for row in rows]


def _columns(groups: Sequence[Group]) -> tuple[list[int], list[str], list[str]]:
    return [g.group for g in groups], [g.domain for g in groups], [g.country for g in groups]
