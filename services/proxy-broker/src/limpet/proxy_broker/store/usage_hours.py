"""Table usage_hours: what each proxy did for each domain in each hour, at the price of that hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

from limpet.kit.pg import Conn

By = Literal["proxy", "provider", "domain"]

BE_ALONE: Final = "SELECT pg_try_advisory_xact_lock(7463917)"


async def be_alone(conn: Conn) -> bool:
    """One roll-up at a time in the cluster, until the transaction ends."""
    alone: bool = await conn.fetchval(BE_ALONE)
    return alone


WAIT_ALONE: Final = "SELECT pg_advisory_xact_lock(7463917)"


async def wait_alone(conn: Conn) -> None:
    """As `be_alone`, for those who cannot come back later."""
    await conn.execute(WAIT_ALONE)


ROLL_UP: Final = """
    WITH moved AS (
        SELECT domain, proxy_id, success_count, failure_count, block_count, byte_count,
               success_count - rolled_success AS success, failure_count - rolled_failure AS failure,
               block_count - rolled_block AS block, byte_count - rolled_bytes AS bytes
          FROM pairs
         WHERE (success_count, failure_count, block_count, byte_count)
               <> (rolled_success, rolled_failure, rolled_block, rolled_bytes)
           AND ($2::bigint IS NULL OR proxy_id = $2)
         ORDER BY domain, proxy_id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
    ), marked AS (
        UPDATE pairs AS pair
           SET rolled_success = moved.success_count, rolled_failure = moved.failure_count,
               rolled_block = moved.block_count, rolled_bytes = moved.byte_count
          FROM moved WHERE pair.domain = moved.domain AND pair.proxy_id = moved.proxy_id
    ), minutes AS (
        INSERT INTO usage_minutes AS used (minute, domain, success_count, failure_count)
        SELECT date_trunc('minute', statement_timestamp()), domain, sum(success), sum(failure)
          FROM moved GROUP BY domain
        ON CONFLICT (minute, domain) DO UPDATE
           SET success_count = used.success_count + excluded.success_count,
               failure_count = used.failure_count + excluded.failure_count
    ), hours AS (
        INSERT INTO usage_hours AS used (hour, domain, proxy_id, provider, success_count, failure_count, block_count,
                                         byte_count, monthly_cost, cost_per_gb)
        SELECT date_trunc('hour', statement_timestamp()), moved.domain, moved.proxy_id, proxy.provider, moved.success,
               moved.failure, moved.block, moved.bytes, proxy.monthly_cost, proxy.cost_per_gb
          FROM moved JOIN proxies AS proxy USING (proxy_id)
        ON CONFLICT (hour, domain, proxy_id) DO UPDATE
           SET success_count = used.success_count + excluded.success_count,
               failure_count = used.failure_count + excluded.failure_count,
               block_count = used.block_count + excluded.block_count,
               byte_count = used.byte_count + excluded.byte_count, provider = excluded.provider,
               monthly_cost = excluded.monthly_cost, cost_per_gb = excluded.cost_per_gb
    )
    SELECT count(*) FROM moved
"""


async def roll_up(conn: Conn, *, limit: int, proxy_id: int | None = None) -> int:
    """Add what pairs have done since the last time to this hour; how many pairs that were. Locked ones wait."""
    return int(await conn.fetchval(ROLL_UP, limit, proxy_id))


@dataclass(frozen=True, kw_only=True)
class Used:
    """Uses of a period with the money in them: prices times hours, and prices times bytes."""

    name: str
    success_count: int
    failure_count: int
    block_count: int
    byte_count: int
    price_hours: Decimal
    price_bytes: Decimal
    # Monthly prices times the hours in which nobody used what was paid for.
    price_idle: Decimal


BY_PROXY: Final = """
    WITH used AS (
        SELECT proxy_id, hour, sum(success_count) AS success_count, sum(failure_count) AS failure_count,
               sum(block_count) AS block_count, sum(byte_count) AS byte_count,
               coalesce(sum(monthly_cost * (success_count + failure_count))
                        / nullif(sum(success_count + failure_count), 0), 0) AS price_hours,
               coalesce(sum(cost_per_gb * byte_count), 0) AS price_bytes
          FROM usage_hours WHERE hour >= $1 AND hour < $2 GROUP BY proxy_id, hour
    ), total AS (
        SELECT proxy_id, count(*) FILTER (WHERE success_count + failure_count > 0) AS hours,
               sum(success_count)::bigint AS success_count, sum(failure_count)::bigint AS failure_count,
               sum(block_count)::bigint AS block_count, sum(byte_count)::bigint AS byte_count,
               sum(price_hours) AS price_hours, sum(price_bytes) AS price_bytes
          FROM used GROUP BY proxy_id
    )
    SELECT proxy_id::text AS name, coalesce(total.success_count, 0) AS success_count,
           coalesce(total.failure_count, 0) AS failure_count, coalesce(total.block_count, 0) AS block_count,
           coalesce(total.byte_count, 0) AS byte_count, coalesce(total.price_hours, 0) AS price_hours,
           coalesce(total.price_bytes, 0) AS price_bytes,
           coalesce(proxy.monthly_cost * greatest(0, owned.hours - coalesce(total.hours, 0)), 0) AS price_idle
      FROM total FULL JOIN proxies AS proxy USING (proxy_id)
     CROSS JOIN LATERAL (
        SELECT ceil(extract(epoch FROM least($2, statement_timestamp())
                                       - greatest($1, date_trunc('hour', proxy.created_at))) / 3600) AS hours
      ) AS owned
     WHERE proxy_id > $3::bigint AND (total.proxy_id IS NOT NULL OR proxy.monthly_cost > 0)
     ORDER BY proxy_id LIMIT $4
"""


async def by_proxy(conn: Conn, *, since: datetime, until: datetime, after: int, limit: int) -> list[Used]:
    """Removed proxies too, as far as they were used; proxies that are paid for and idle as well."""
    return [Used(**row) for row in await conn.fetch(BY_PROXY, since, until, after, limit)]


BY_PROVIDER: Final = """
    WITH used AS (
        SELECT proxy_id, hour, provider, sum(success_count) AS success_count, sum(failure_count) AS failure_count,
               sum(block_count) AS block_count, sum(byte_count) AS byte_count,
               coalesce(sum(monthly_cost * (success_count + failure_count))
                        / nullif(sum(success_count + failure_count), 0), 0) AS price_hours,
               coalesce(sum(cost_per_gb * byte_count), 0) AS price_bytes
          FROM usage_hours WHERE hour >= $1 AND hour < $2 GROUP BY proxy_id, hour, provider
    ), total AS (
        SELECT provider, sum(success_count)::bigint AS success_count, sum(failure_count)::bigint AS failure_count,
               sum(block_count)::bigint AS block_count, sum(byte_count)::bigint AS byte_count,
               sum(price_hours) AS price_hours, sum(price_bytes) AS price_bytes
          FROM used GROUP BY provider
    ), busy AS (
        SELECT proxy_id, count(DISTINCT hour) AS hours
          FROM used WHERE success_count + failure_count > 0 GROUP BY proxy_id
    ), idle AS (
        SELECT proxy.provider,
               sum(proxy.monthly_cost * greatest(0, ceil(
                   extract(epoch FROM least($2, statement_timestamp())
                                      - greatest($1, date_trunc('hour', proxy.created_at))) / 3600)
                   - coalesce(busy.hours, 0))) AS price_idle
          FROM proxies AS proxy LEFT JOIN busy USING (proxy_id)
         WHERE proxy.monthly_cost > 0 GROUP BY proxy.provider
    )
    SELECT provider AS name, coalesce(total.success_count, 0) AS success_count,
           coalesce(total.failure_count, 0) AS failure_count, coalesce(total.block_count, 0) AS block_count,
           coalesce(total.byte_count, 0) AS byte_count, coalesce(total.price_hours, 0) AS price_hours,
           coalesce(total.price_bytes, 0) AS price_bytes, coalesce(idle.price_idle, 0) AS price_idle
      FROM total FULL JOIN idle USING (provider)
     WHERE $3::text IS NULL OR provider > $3
     ORDER BY provider LIMIT $4
"""


async def by_provider(conn: Conn, *, since: datetime, until: datetime, after: str | None, limit: int) -> list[Used]:
    return [Used(**row) for row in await conn.fetch(BY_PROVIDER, since, until, after, limit)]


BY_DOMAIN: Final = """
    SELECT domain AS name, sum(success_count)::bigint AS success_count, sum(failure_count)::bigint AS failure_count,
           sum(block_count)::bigint AS block_count, sum(byte_count)::bigint AS byte_count,
           coalesce(sum(monthly_cost * uses / nullif(of_proxy, 0)), 0) AS price_hours,
           coalesce(sum(cost_per_gb * byte_count), 0) AS price_bytes, 0::numeric AS price_idle
      FROM (SELECT domain, success_count, failure_count, block_count, byte_count, monthly_cost, cost_per_gb,
                   (success_count + failure_count)::numeric AS uses,
                   sum(success_count + failure_count) OVER (PARTITION BY hour, proxy_id) AS of_proxy
              FROM usage_hours WHERE hour >= $1 AND hour < $2) AS used
     WHERE $3::text IS NULL OR domain > $3
     GROUP BY domain ORDER BY domain LIMIT $4
"""


async def by_domain(conn: Conn, *, since: datetime, until: datetime, after: str | None, limit: int) -> list[Used]:
    """An hour of a proxy is shared among the domains that used it, by their uses. Idle hours are nobody's."""
    return [Used(**row) for row in await conn.fetch(BY_DOMAIN, since, until, after, limit)]


BUSIEST: Final = """
    SELECT coalesce(max(uses), 0)::bigint
      FROM (SELECT sum(success_count + failure_count) AS uses FROM usage_hours
             WHERE hour >= date_trunc('hour', statement_timestamp()) - $2::interval AND domain = $1
             GROUP BY hour
            UNION ALL
            SELECT sum(success_count + failure_count) FROM usage_minutes
             WHERE minute > statement_timestamp() - interval '1 hour' AND domain = $1) AS found
"""


async def busiest(conn: Conn, *, domain: str, within: timedelta) -> int:
    """Uses in the domain's busiest hour, the last sixty minutes included: a pool that suffices then suffices always."""
    return int(await conn.fetchval(BUSIEST, domain, within))


PRUNE: Final = """
    WITH pruned AS (DELETE FROM usage_hours WHERE hour < statement_timestamp() - $1::interval RETURNING 1)
    SELECT count(*) FROM pruned
"""


async def prune(conn: Conn, *, older_than: timedelta) -> int:
    return int(await conn.fetchval(PRUNE, older_than))
