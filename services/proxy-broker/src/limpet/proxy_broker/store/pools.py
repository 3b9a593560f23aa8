"""Pools: the proxies that a domain may use now, taken under lock or only looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.line import Line
from limpet.proxy_broker.score import Record
from limpet.proxy_broker.strategy import Candidate

# Conditions stand inside CASE where the planner would take each for rare, expect one row and loop over everything. Pairs
# without trouble are not looked up for shared proxies: the condition on `pair` is that of the index pairs_trouble.
TAKE: Final = """
    WITH shared AS MATERIALIZED (
        SELECT proxy_id FROM proxies
         WHERE NOT EXISTS (SELECT FROM pairs WHERE pairs.proxy_id = proxies.proxy_id AND pairs.assigned)
    )
    SELECT want.grp, free.*
      FROM unnest($1::integer[], $2::text[], $3::text[], $4::boolean[], $5::text[], $6::bigint[], $7::bigint[],
                  $8::integer[])
           AS want (grp, domain, country, pooled, tier, kept, avoided, most)
      LEFT JOIN policies AS policy ON policy.domain = want.domain
     CROSS JOIN LATERAL (
        SELECT proxy.proxy_id,
               member.priority + CASE WHEN proxy.proxy_id = want.avoided THEN 100 ELSE 0 END AS priority,
               least(
                   proxy.max_concurrent_leases - proxy.open_leases,
                   floor(extract(epoch FROM statement_timestamp() + proxy.charge_ahead
                                 - greatest(proxy.charged_until, statement_timestamp()))
                         / extract(epoch FROM proxy.charge_every) + 0.000001)::integer + 1,
                   CASE WHEN proxy.consecutive_failures >= $9 THEN 1 - proxy.open_leases END,
                   CASE WHEN member.failures >= coalesce(policy.pair_failures, $10) THEN 1 END
               ) AS room,
               CASE WHEN proxy.consecutive_failures >= $9 THEN 'proxy'
                    WHEN member.failures >= coalesce(policy.pair_failures, $10) THEN 'pair' ELSE '' END AS probe,
               proxy.protocol, proxy.host, proxy.port, proxy.username, proxy.password_sealed
          FROM (
            SELECT pair.proxy_id, pair.priority, pair.consecutive_failures AS failures,
                   pair.operator_disabled AS disabled, greatest(pair.cooling_until, pair.blocked_until) AS until
              FROM pairs AS pair
             WHERE want.pooled AND want.kept = 0 AND pair.domain = want.domain AND pair.assigned
             UNION ALL
            SELECT shared.proxy_id, 5, pair.consecutive_failures, coalesce(pair.operator_disabled, false),
                   greatest(pair.cooling_until, pair.blocked_until)
              FROM shared
              LEFT JOIN pairs AS pair
                   ON pair.domain = want.domain AND pair.proxy_id = shared.proxy_id
                      AND (pair.operator_disabled OR pair.cooling_until IS NOT NULL OR pair.blocked_until IS NOT NULL
                           OR pair.consecutive_failures > 0)
             WHERE NOT want.pooled AND want.kept = 0
             UNION ALL
            SELECT kept.proxy_id, 5, pair.consecutive_failures, coalesce(pair.operator_disabled, false),
                   greatest(pair.cooling_until, pair.blocked_until)
              FROM proxies AS kept
              LEFT JOIN pairs AS pair ON pair.domain = want.domain AND pair.proxy_id = kept.proxy_id
             WHERE want.kept <> 0 AND kept.proxy_id = want.kept
               AND CASE WHEN want.pooled THEN coalesce(pair.assigned, false)
                        ELSE NOT EXISTS (SELECT FROM pairs AS other
                                          WHERE other.proxy_id = kept.proxy_id AND other.assigned) END
          ) AS member
          JOIN proxies AS proxy ON proxy.proxy_id = member.proxy_id
         WHERE CASE WHEN member.disabled OR member.until > statement_timestamp() THEN false ELSE true END
           AND CASE WHEN NOT proxy.operator_disabled
                     AND (proxy.cooling_until <= statement_timestamp()) IS NOT FALSE
                     AND proxy.open_leases
                         < CASE WHEN proxy.consecutive_failures >= $9 THEN 1 ELSE proxy.max_concurrent_leases END
                     AND (proxy.charged_until - proxy.charge_ahead <= statement_timestamp()) IS NOT FALSE
                     AND (want.country = '' OR proxy.country_code = want.country)
                     AND (want.tier = '' OR proxy.kind = want.tier)
                     AND (policy.kinds = '{}' OR proxy.kind = ANY (policy.kinds)) IS NOT FALSE
                     AND (policy.providers = '{}' OR proxy.provider = ANY (policy.providers)) IS NOT FALSE
                     AND proxy.provider <> ALL (ARRAY(
                         SELECT name FROM budgets
                          WHERE scope = 'provider' AND state = 'stopped'
                            AND month = date_trunc('month', statement_timestamp())::date))
                    THEN true ELSE false END
         ORDER BY 2, proxy.last_used_at NULLS FIRST, proxy.proxy_id
         LIMIT want.most FOR NO KEY UPDATE OF proxy SKIP LOCKED
     ) AS free
"""


async def take(conn: Conn, *, lines: Sequence[Line], proxy_failures: int, pair_failures: int) -> list[Candidate]:
    """Lock what may be leased now, least recently used first within priority. A domain without a pool of its own uses
    the proxies that are in none. After a cool-down one lease at a time shows whether all is well again."""
    avoided, limits = [line.avoided for line in lines], [line.limit for line in lines]
    rows = await conn.fetch(TAKE, *_columns(lines), avoided, limits, proxy_failures, pair_failures)
    return [Candidate(*row) for row in rows]


WAIT_FOR: Final = "SELECT FROM proxies WHERE proxy_id = ANY($1::bigint[]) ORDER BY proxy_id FOR NO KEY UPDATE"


async def wait_for(conn: Conn, *, proxy_ids: Sequence[int]) -> None:
    """Always in the order of their ids, so that nobody waits in a circle."""
    await conn.execute(WAIT_FOR, list(proxy_ids))


LOOK: Final = """
    SELECT want.grp AS group, proxy.proxy_id, coalesce(pair.priority, 5) AS priority,
           CASE WHEN proxy.consecutive_failures >= $7 OR pair.consecutive_failures >= coalesce(policy.pair_failures, $8)
                THEN 1 ELSE proxy.max_concurrent_leases - proxy.open_leases END AS room,
           CASE WHEN pair.shared_at IS NULL THEN proxy.success_share ELSE pair.success_share END AS success_share,
           CASE WHEN pair.shared_at IS NULL THEN proxy.block_share ELSE pair.block_share END AS block_share,
           coalesce(pair.shared_at, proxy.shared_at) AS shared_at,
           coalesce(pair.avg_response_ms, proxy.avg_response_ms) AS avg_response_ms,
           proxy.monthly_cost::float8 AS monthly_cost, proxy.cost_per_gb::float8 AS cost_per_gb
      FROM unnest($1::integer[], $2::text[], $3::text[], $4::boolean[], $5::text[], $6::bigint[])
           AS want (grp, domain, country, pooled, tier, kept)
      LEFT JOIN policies AS policy ON policy.domain = want.domain
     CROSS JOIN proxies AS proxy
      LEFT JOIN pairs AS pair ON pair.proxy_id = proxy.proxy_id AND pair.domain = want.domain
     WHERE CASE WHEN want.pooled THEN coalesce(pair.assigned, false)
                ELSE NOT EXISTS (SELECT FROM pairs AS other WHERE other.proxy_id = proxy.proxy_id AND other.assigned) END
       AND NOT proxy.operator_disabled AND pair.operator_disabled IS NOT TRUE
       AND (greatest(proxy.cooling_until, pair.cooling_until, pair.blocked_until, proxy.charged_until - proxy.charge_ahead)
            <= statement_timestamp()) IS NOT FALSE
       AND (want.country = '' OR proxy.country_code = want.country)
       AND (want.tier = '' OR proxy.kind = want.tier)
       AND (policy.kinds = '{}' OR proxy.kind = ANY (policy.kinds)) IS NOT FALSE
       AND (policy.providers = '{}' OR proxy.provider = ANY (policy.providers)) IS NOT FALSE
       AND proxy.provider <> ALL (ARRAY(
           SELECT name FROM budgets
            WHERE scope = 'provider' AND state = 'stopped' AND month = date_trunc('month', statement_timestamp())::date))
"""


async def look(conn: Conn, *, lines: Sequence[Line], proxy_failures: int, pair_failures: int) -> list[Record]:
    """What is known of the proxies that these lines could use, without a lock: whom they draw is taken afterwards."""
    return [Record(**row) for row in await conn.fetch(LOOK, *_columns(lines), proxy_failures, pair_failures)]


def _columns(lines: Sequence[Line]) -> tuple[list[Any], ...]:
    return (
        [line.group for line in lines],
        [line.domain for line in lines],
        [line.country for line in lines],
        [line.pooled for line in lines],
        [line.tier for line in lines],
        [line.kept for line in lines],
    )
