"""Pools as people ask about them: why one gave too little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.line import Line
from limpet.proxy_broker.refusal import Survey

SURVEY: Final = """
    SELECT want.grp AS group, statement_timestamp() AS now,
           date_trunc('month', statement_timestamp()) + interval '1 month' AS next_month,
           count(member.proxy_id)::integer AS members,
           count(*) FILTER (WHERE in_country)::integer AS in_country,
           count(*) FILTER (WHERE in_country AND matches)::integer AS matching,
           count(*) FILTER (WHERE in_country AND matches AND enabled)::integer AS enabled,
           count(*) FILTER (WHERE usable)::integer AS funded,
           count(*) FILTER (WHERE usable AND ready_at <= statement_timestamp())::integer AS ready,
           min(ready_at) FILTER (WHERE usable) AS ready_at,
           (array_agg(waits_for ORDER BY ready_at) FILTER (WHERE usable))[1] AS waits_for,
           coalesce((array_agg(member.proxy_id ORDER BY member.last_used_at NULLS FIRST)
                     FILTER (WHERE usable AND has_room AND ready_at <= statement_timestamp()))[1:$7], '{}') AS free
      FROM unnest($1::integer[], $2::text[], $3::text[], $4::boolean[], $5::text[], $6::bigint[])
           AS want (grp, domain, country, pooled, tier, kept)
      LEFT JOIN policies AS policy ON policy.domain = want.domain
      LEFT JOIN LATERAL (
        SELECT known.*, in_country AND matches AND enabled AND funded AS usable
          FROM (
            SELECT proxy.proxy_id, proxy.last_used_at,
                   want.country = '' OR proxy.country_code = want.country AS in_country,
                   (want.kept IN (0, proxy.proxy_id) AND want.tier IN ('', proxy.kind)
                    AND (policy.kinds = '{}' OR proxy.kind = ANY (policy.kinds)) IS NOT FALSE
                    AND (policy.providers = '{}' OR proxy.provider = ANY (policy.providers)) IS NOT FALSE) AS matches,
                   NOT proxy.operator_disabled AND pair.operator_disabled IS NOT TRUE AS enabled,
                   proxy.provider <> ALL (ARRAY(
                       SELECT name FROM budgets
                        WHERE scope = 'provider' AND state = 'stopped'
                          AND month = date_trunc('month', statement_timestamp())::date)) AS funded,
                   greatest(proxy.cooling_until, pair.cooling_until, pair.blocked_until,
                            CASE WHEN given.count IS NULL THEN proxy.charged_until
                                 ELSE greatest(proxy.charged_until, statement_timestamp())
                                      + proxy.charge_every * given.count END - proxy.charge_ahead,
                            statement_timestamp()) AS ready_at,
                   CASE WHEN greatest(proxy.cooling_until, pair.cooling_until) > statement_timestamp() THEN 'cooling'
                        WHEN pair.blocked_until > statement_timestamp() THEN 'blocked'
                        ELSE 'limited' END AS waits_for,
                   (proxy.open_leases + coalesce(given.count, 0)
                        < CASE WHEN proxy.consecutive_failures >= $8 THEN 1 ELSE proxy.max_concurrent_leases END
                    AND NOT EXISTS (SELECT FROM leases AS lease
                                     WHERE lease.domain = want.domain AND lease.proxy_id = proxy.proxy_id
                                       AND lease.probe <> '' AND lease.probe = 'pair')) AS has_room
              FROM proxies AS proxy
              LEFT JOIN pairs AS pair ON pair.proxy_id = proxy.proxy_id AND pair.domain = want.domain
              LEFT JOIN unnest($9::bigint[], $10::integer[]) AS given (proxy_id, count)
                   ON given.proxy_id = proxy.proxy_id
             WHERE CASE WHEN want.pooled THEN coalesce(pair.assigned, false)
                        ELSE NOT EXISTS (SELECT FROM pairs AS other
                                          WHERE other.proxy_id = proxy.proxy_id AND other.assigned) END
          ) AS known
      ) AS member ON true
     GROUP BY want.grp
"""


async def survey(
    conn: Conn, *, lines: Sequence[Line], limit: int, proxy_failures: int, given: Mapping[int, int]
) -> dict[int, Survey]:
    """By line: what is in its pool, in which state, and what others may hold locked at this moment.

    `given` is what this call takes of each proxy and has not written yet.
    """
    rows = await conn.fetch(
        SURVEY,
        [line.group for line in lines],
        [line.domain for line in lines],
        [line.country for line in lines],
        [line.pooled for line in lines],
        [line.tier for line in lines],
        [line.kept for line in lines],
        limit,
        proxy_failures,
        list(given),
        list(given.values()),
    )
    return {row["group"]: Survey(**row) for row in rows}
