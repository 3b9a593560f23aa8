"""Table leases: who holds which proxy until when. Only open ones are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.line import Key
from limpet.proxy_broker.literals import numbers, texts


@dataclass(frozen=True, kw_only=True)
class OpenLease:
    """A lease that was given before, with what is needed to connect; nothing of that where it is direct."""

    lease_id: int
    task_id: int
    attempt: int
    expires_at: datetime
    direct: bool
    proxy_id: int
    protocol: str
    host: str
    port: int
    username: str
    password_sealed: str | None


FIND: Final = """
    SELECT lease.lease_id, lease.task_id, lease.attempt, lease.expires_at, lease.proxy_id IS NULL AS direct,
           coalesce(lease.proxy_id, 0) AS proxy_id, coalesce(proxy.protocol, '') AS protocol,
           coalesce(proxy.host, '') AS host, coalesce(proxy.port, 0) AS port, coalesce(proxy.username, '') AS username,
           proxy.password_sealed
      FROM unnest($1::bigint[], $2::integer[]) AS wanted (task_id, attempt)
      JOIN leases AS lease USING (task_id, attempt)
      LEFT JOIN proxies AS proxy USING (proxy_id)
     WHERE lease.expires_at > statement_timestamp()
"""


async def find(conn: Conn, *, keys: Sequence[Key]) -> dict[Key, OpenLease]:
    """The leases that these attempts hold already."""
    rows = await conn.fetch(FIND, [task_id for task_id, _ in keys], [attempt for _, attempt in keys])
    return {(row["task_id"], row["attempt"]): OpenLease(**row) for row in rows}


# One statement for two tables: the locks are held for one trip less.
GIVE: Final = """
    WITH given AS (
        INSERT INTO leases (task_id, attempt, domain, proxy_id, probe, holder, expires_at)
        SELECT new.task_id, new.attempt, new.domain, new.proxy_id, new.probe, new.holder,
               statement_timestamp() + new.seconds * interval '1 second'
          FROM unnest($1::text::bigint[], $2::text::integer[], $3::text::text[], $4::text::bigint[], $5::text::text[],
                      $6::text::float8[], $7::text::text[])
               AS new (task_id, attempt, domain, proxy_id, probe, seconds, holder)
         ORDER BY new.task_id, new.attempt
        ON CONFLICT ON CONSTRAINT leases_once_per_attempt DO NOTHING
        RETURNING task_id, attempt, lease_id, expires_at, proxy_id
    ), charged AS (
        UPDATE proxies AS proxy
           SET open_leases = proxy.open_leases + used.count,
               last_used_at = statement_timestamp(),
               charged_until = greatest(proxy.charged_until, statement_timestamp()) + proxy.charge_every * used.count
          FROM (SELECT proxy_id, count(*)::integer AS count FROM given WHERE proxy_id IS NOT NULL GROUP BY proxy_id) AS used
         WHERE proxy.proxy_id = used.proxy_id
    )
    SELECT task_id, attempt, lease_id, expires_at FROM given
"""


async def give(
    conn: Conn,
    *,
    keys: Sequence[Key],
    domains: Sequence[str],
    proxies: Sequence[int | None],
    probes: Sequence[str],
    seconds: Sequence[float],
    holders: Sequence[str],
) -> dict[Key, tuple[int, datetime]]:
    """Lease id and expiry of each attempt that had none; in key order, so that nobody waits in a circle.

    Counts them against the locked proxies, concurrency now and the hour for good. Pairs wait for the report.
    """
    rows = await conn.fetch(
        GIVE,
        numbers([task_id for task_id, _ in keys]),
        numbers([attempt for _, attempt in keys]),
        texts(domains),
        numbers(proxies),
        texts(probes),
        numbers(seconds),
        texts(holders),
    )
    return {(task_id, attempt): (lease_id, expires_at) for task_id, attempt, lease_id, expires_at in rows}


PROBED: Final = """
    SELECT lease.domain, lease.proxy_id
      FROM unnest($1::text[], $2::bigint[]) AS asked (domain, proxy_id)
      JOIN leases AS lease USING (domain, proxy_id)
     WHERE lease.probe <> '' AND lease.probe = 'pair'
"""


async def probed(conn: Conn, *, pairs: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
    """Which of these pairs, whose proxies are locked, have a probe out."""
    rows = await conn.fetch(PROBED, [domain for domain, _ in pairs], [proxy_id for _, proxy_id in pairs])
    return {(domain, proxy_id) for domain, proxy_id in rows}
