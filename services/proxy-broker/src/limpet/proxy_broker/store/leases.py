"""Table leases: who holds which proxy until when. Only open ones are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from limpet.kit.pg import Conn

Key = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class NewLease:
    """A lease to be given."""

    task_id: int
    attempt: int
    domain: str
    proxy_id: int
    ttl: timedelta


@dataclass(frozen=True, kw_only=True)
class OpenLease:
    """A lease that was given before, with what is needed to connect."""

    lease_id: int
    task_id: int
    attempt: int
    proxy_id: int
    expires_at: datetime
    protocol: str
    host: str
    port: int
    username: str
    password_sealed: str | None


FIND: Final = """
    SELECT lease.lease_id, lease.task_id, lease.attempt, lease.proxy_id, lease.expires_at, proxy.protocol, proxy.host,
           proxy.port, proxy.username, proxy.password_sealed
      FROM unnest($1::bigint[], $2::integer[]) AS wanted (task_id, attempt)
      JOIN leases AS lease USING (task_id, attempt)
      JOIN proxies AS proxy USING (proxy_id)
     WHERE lease.expires_at > statement_timestamp()
"""


async def find(conn: Conn, *, keys: Sequence[Key]) -> dict[Key, OpenLease]:
    """The leases that these attempts hold already."""
    rows = await conn.fetch(FIND, [task_id for task_id, _ in keys], [attempt for _, attempt in keys])
    return {(row["task_id"], row["attempt"]): OpenLease(**row) for row in rows}


OPEN: Final = """
    INSERT INTO leases (task_id, attempt, domain, proxy_id, holder, expires_at)
    SELECT new.task_id, new.attempt, new.domain, new.proxy_id, $6, statement_timestamp() + new.ttl
      FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[], $5::interval[])
           AS new (task_id, attempt, domain, proxy_id, ttl)
     ORDER BY new.task_id, new.attempt
    ON CONFLICT ON CONSTRAINT leases_once_per_attempt DO NOTHING
    RETURNING task_id, attempt, lease_id, expires_at
"""


async def open_all(conn: Conn, *, leases: Sequence[NewLease], holder: str) -> dict[Key, tuple[int, datetime]]:
    """Lease id and expiry of each attempt that had none; in key order, so that nobody waits in a circle."""
    rows = await conn.fetch(
        OPEN,
        [lease.task_id for lease in leases],
        [lease.attempt for lease in leases],
        [lease.domain for lease in leases],
        [lease.proxy_id for lease in leases],
        [lease.ttl for lease in leases],
        holder,
    )
    return {(row["task_id"], row["attempt"]): (row["lease_id"], row["expires_at"]) for row in rows}


NOW: Final = "SELECT clock_timestamp()"


async def now(conn: Conn) -> datetime:
    """The one clock that decides."""
    moment: datetime = await conn.fetchval(NOW)
    return moment
