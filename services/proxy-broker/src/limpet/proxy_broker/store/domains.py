"""Table domains: the domains that the scheduler announces, and how many proxies each can use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from limpet.kit.pg import Conn

SAVE: Final = """
    INSERT INTO domains AS known (name, proxy_policy, active, changed_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name) DO UPDATE
       SET proxy_policy = excluded.proxy_policy, active = excluded.active, changed_at = excluded.changed_at
     WHERE known.changed_at <= excluded.changed_at
"""


async def save(conn: Conn, *, name: str, proxy_policy: str, active: bool, changed_at: datetime) -> None:
    """An older fact that comes late changes nothing; so a deleted domain stays here as one that is not active."""
    await conn.execute(SAVE, name, proxy_policy, active, changed_at)


@dataclass(frozen=True, kw_only=True)
class Short:
    """A domain with too few proxies."""

    domain: str
    active_proxies: int


LIST_SHORT: Final = """
    WITH wanted AS (
        SELECT name AS domain FROM domains WHERE active AND proxy_policy <> 'none'
         UNION
        SELECT other.domain
          FROM (SELECT domain FROM pairs WHERE assigned UNION SELECT domain FROM policies) AS other
         WHERE NOT EXISTS (SELECT FROM domains AS known WHERE known.name = other.domain
                                                          AND (NOT known.active OR known.proxy_policy = 'none'))
    ), shared AS MATERIALIZED (
        SELECT proxy_id, country_code, provider, kind FROM proxies AS proxy
         WHERE NOT operator_disabled AND (cooling_until IS NULL OR cooling_until <= statement_timestamp())
           AND NOT EXISTS (SELECT FROM pairs AS pair WHERE pair.proxy_id = proxy.proxy_id AND pair.assigned)
    )
    SELECT wanted.domain, usable.count AS active_proxies
      FROM wanted
      LEFT JOIN policies AS policy USING (domain)
     CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pairs AS pair
                                         WHERE pair.domain = wanted.domain AND pair.assigned) AS pooled) AS own
     CROSS JOIN LATERAL (
        SELECT count(*)::integer AS count FROM (
            SELECT FROM pairs AS pair JOIN proxies AS proxy USING (proxy_id)
             WHERE own.pooled AND pair.domain = wanted.domain AND pair.assigned
               AND NOT pair.operator_disabled AND NOT proxy.operator_disabled
               AND coalesce(greatest(pair.cooling_until, pair.blocked_until, proxy.cooling_until)
                            <= statement_timestamp(), true)
               AND coalesce(policy.country_code, '') IN ('', proxy.country_code)
               AND (coalesce(cardinality(policy.providers), 0) = 0 OR proxy.provider = ANY(policy.providers))
               AND (coalesce(cardinality(policy.kinds), 0) = 0 OR proxy.kind = ANY(policy.kinds))
               AND (coalesce(cardinality(policy.tiers), 0) = 0 OR proxy.kind = ANY(policy.tiers))
             UNION ALL
            SELECT FROM shared
             WHERE NOT own.pooled
               AND NOT EXISTS (SELECT FROM pairs AS pair
                                WHERE pair.domain = wanted.domain AND pair.proxy_id = shared.proxy_id
                                  AND (pair.operator_disabled
                                       OR greatest(pair.cooling_until, pair.blocked_until) > statement_timestamp()))
               AND coalesce(policy.country_code, '') IN ('', shared.country_code)
               AND (coalesce(cardinality(policy.providers), 0) = 0 OR shared.provider = ANY(policy.providers))
               AND (coalesce(cardinality(policy.kinds), 0) = 0 OR shared.kind = ANY(policy.kinds))
               AND (coalesce(cardinality(policy.tiers), 0) = 0 OR shared.kind = ANY(policy.tiers))
             -- Enough is enough: a shared pool of thousands is not counted for each domain.
             LIMIT $1
        ) AS found
      ) AS usable
     WHERE usable.count < $1
     ORDER BY wanted.domain
"""


async def list_short(conn: Conn, *, least: int) -> list[Short]:
    """Domains that want proxies and have fewer active ones than that, none at all included."""
    return [Short(**row) for row in await conn.fetch(LIST_SHORT, least)]


@dataclass(frozen=True, kw_only=True)
class Supply:
    """What a domain can use, as far as its policy lets it."""

    members: int
    active: int
    # The mean of the hourly limits of those that are active, or of all where none is; None: they have no limit.
    max_requests_per_hour: Decimal | None


SUPPLY: Final = """
    WITH member AS (
        SELECT proxy.max_requests_per_hour AS per_hour,
               NOT proxy.operator_disabled AND NOT coalesce(pair.operator_disabled, false)
               AND coalesce(greatest(pair.cooling_until, pair.blocked_until, proxy.cooling_until)
                            <= statement_timestamp(), true) AS active
          FROM proxies AS proxy
          LEFT JOIN pairs AS pair ON pair.proxy_id = proxy.proxy_id AND pair.domain = $1
          LEFT JOIN policies AS policy ON policy.domain = $1
         WHERE CASE WHEN EXISTS (SELECT FROM pairs AS own WHERE own.domain = $1 AND own.assigned)
                    THEN coalesce(pair.assigned, false)
                    ELSE NOT EXISTS (SELECT FROM pairs AS other WHERE other.proxy_id = proxy.proxy_id
                                                                  AND other.assigned) END
           AND coalesce(policy.country_code, '') IN ('', proxy.country_code)
           AND (coalesce(cardinality(policy.providers), 0) = 0 OR proxy.provider = ANY(policy.providers))
           AND (coalesce(cardinality(policy.kinds), 0) = 0 OR proxy.kind = ANY(policy.kinds))
           AND (coalesce(cardinality(policy.tiers), 0) = 0 OR proxy.kind = ANY(policy.tiers))
    )
    SELECT count(*)::integer AS members, (count(*) FILTER (WHERE active))::integer AS active,
           coalesce(avg(per_hour) FILTER (WHERE active), avg(per_hour)) AS max_requests_per_hour
      FROM member
"""


async def supply(conn: Conn, *, domain: str) -> Supply:
    [row] = await conn.fetch(SUPPLY, domain)
    return Supply(**row)
