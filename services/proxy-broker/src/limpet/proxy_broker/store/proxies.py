"""Table proxies: what they are, who may use them, how they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.blame import Health


@dataclass(frozen=True, kw_only=True)
class NewProxy:
    """What a person says about a proxy; the password is sealed once the id is known."""

    protocol: str
    host: str
    port: int
    username: str
    kind: str
    country_code: str
    city: str
    provider: str
    monthly_cost: Decimal | None
    max_requests_per_hour: int | None
    max_concurrent_leases: int


@dataclass(frozen=True, kw_only=True)
class Proxy(NewProxy):
    """One proxy as people may see it: whether there is a password, never which."""

    proxy_id: int
    has_password: bool
    operator_disabled: bool
    active: bool
    cooling_until: datetime | None
    relapses: int
    open_leases: int
    consecutive_failures: int
    success_count: int
    failure_count: int
    block_count: int
    avg_response_ms: float | None
    last_used_at: datetime | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    created_at: datetime
    updated_at: datetime


ADD: Final = """
    INSERT INTO proxies (protocol, host, port, username, kind, country_code, city, provider, monthly_cost,
                         max_requests_per_hour, max_concurrent_leases)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    ON CONFLICT ON CONSTRAINT proxies_identity DO NOTHING
    RETURNING proxy_id
"""


async def add(conn: Conn, *, proxy: NewProxy) -> int | None:
    """The new proxy's id, or none when one with the same identity is there."""
    found: int | None = await conn.fetchval(ADD, *asdict(proxy).values())
    return found


SET_PASSWORD: Final = "UPDATE proxies SET password_sealed = $2, updated_at = now() WHERE proxy_id = $1"  # noqa: S105


async def set_password(conn: Conn, *, proxy_id: int, sealed: str) -> None:
    await conn.execute(SET_PASSWORD, proxy_id, sealed)


LIST: Final = """
    SELECT protocol, host, port, username, kind, country_code, city, provider, monthly_cost, max_requests_per_hour,
           max_concurrent_leases, proxy_id, password_sealed IS NOT NULL AS has_password, operator_disabled,
           NOT operator_disabled AND (cooling_until IS NULL OR cooling_until <= statement_timestamp()) AS active,
           cooling_until, relapses, open_leases, consecutive_failures, success_count, failure_count, block_count,
           avg_response_ms, last_used_at, last_success_at, last_failure_at, created_at, updated_at
      FROM proxies
     WHERE proxy_id > $1 AND ($2::bigint IS NULL OR proxy_id = $2)
     ORDER BY proxy_id LIMIT $3
"""


async def list_after(conn: Conn, *, after: int, limit: int, only: int | None = None) -> list[Proxy]:
    """A page of proxies in the order of their ids, or one of them."""
    return [Proxy(**row) for row in await conn.fetch(LIST, after, only, limit)]


ENABLE: Final = """
    UPDATE proxies
       SET operator_disabled = false, cooling_until = NULL, consecutive_failures = 0, relapses = 0, updated_at = now()
     WHERE proxy_id = $1
 RETURNING proxy_id
"""


async def enable(conn: Conn, *, proxy_id: int) -> bool:
    """A person trusts it again: its cool-down ends as well. The totals stay."""
    return await conn.fetchval(ENABLE, proxy_id) is not None


DISABLE: Final = """
    UPDATE proxies SET operator_disabled = true, updated_at = now() WHERE proxy_id = $1 RETURNING proxy_id
"""


async def disable(conn: Conn, *, proxy_id: int) -> bool:
    """Open leases run on; no new ones are given."""
    return await conn.fetchval(DISABLE, proxy_id) is not None


REMOVE: Final = "DELETE FROM proxies WHERE proxy_id = $1 RETURNING proxy_id"


async def remove(conn: Conn, *, proxy_id: int) -> bool:
    return await conn.fetchval(REMOVE, proxy_id) is not None


CHARGE: Final = """
    UPDATE proxies AS proxy
       SET open_leases = proxy.open_leases + given.count,
           last_used_at = statement_timestamp(),
           charged_until = greatest(proxy.charged_until, statement_timestamp()) + proxy.charge_every * given.count
      FROM unnest($1::bigint[], $2::integer[]) AS given (proxy_id, count)
     WHERE proxy.proxy_id = given.proxy_id
"""


async def charge(conn: Conn, *, given: Mapping[int, int]) -> None:
    """Count leases against locked proxies: concurrency now, the hour for good."""
    await conn.execute(CHARGE, list(given), list(given.values()))


COOL: Final = """
    UPDATE proxies SET cooling_until = statement_timestamp() + $2::interval, updated_at = now()
     WHERE proxy_id = ANY($1::bigint[])
"""


async def cool(conn: Conn, *, proxy_ids: Sequence[int], length: timedelta) -> None:
    """Set aside proxies that we hold locked."""
    await conn.execute(COOL, list(proxy_ids), length)


@dataclass(frozen=True, kw_only=True)
class Patient(Health):
    """A locked proxy with its health, and the database's time."""

    proxy_id: int
    now: datetime


LOCK: Final = """
    SELECT proxy_id, consecutive_failures, success_count, failure_count, block_count,
           avg_response_ms, cooling_until, relapses, relapsed_at, last_success_at, last_failure_at,
           clock_timestamp() AS now
      FROM proxies
     WHERE proxy_id = ANY($1::bigint[])
     ORDER BY proxy_id FOR NO KEY UPDATE
"""


async def lock(conn: Conn, *, proxy_ids: Sequence[int]) -> list[Patient]:
    """Wait for these proxies, always in the order of their ids, so that nobody waits in a circle."""
    return [Patient(**row) for row in await conn.fetch(LOCK, list(proxy_ids))]


RECORD: Final = """
    UPDATE proxies AS proxy
       SET open_leases = proxy.open_leases - new.closed,
           consecutive_failures = new.consecutive_failures, success_count = new.success_count,
           failure_count = new.failure_count, block_count = new.block_count, avg_response_ms = new.avg_response_ms,
           cooling_until = new.cooling_until, relapses = new.relapses, relapsed_at = new.relapsed_at,
           last_success_at = new.last_success_at, last_failure_at = new.last_failure_at
      FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::float8[],
                  $8::timestamptz[], $9::integer[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[])
           AS new (proxy_id, closed, consecutive_failures, success_count, failure_count, block_count, avg_response_ms,
                   cooling_until, relapses, relapsed_at, last_success_at, last_failure_at)
     WHERE proxy.proxy_id = new.proxy_id
"""


async def record(conn: Conn, *, closed: Mapping[int, int], health: Mapping[int, Health]) -> None:
    """Write the health of locked proxies and give their closed leases back."""
    columns = [[getattr(health[proxy_id], field.name) for proxy_id in closed] for field in fields(Health)]
    await conn.execute(RECORD, list(closed), list(closed.values()), *columns)


GIVE_BACK: Final = """
    UPDATE proxies AS proxy SET open_leases = proxy.open_leases - gone.count
      FROM unnest($1::bigint[], $2::integer[]) AS gone (proxy_id, count)
     WHERE proxy.proxy_id = gone.proxy_id
"""


async def give_back(conn: Conn, *, closed: Mapping[int, int]) -> None:
    """Leases of locked proxies ended without a report: nobody is to blame."""
    await conn.execute(GIVE_BACK, list(closed), list(closed.values()))


END_COOLING: Final = """
    WITH over AS (
        SELECT proxy_id FROM proxies WHERE cooling_until <= statement_timestamp()
         ORDER BY proxy_id FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE proxies AS proxy SET cooling_until = NULL, updated_at = now()
      FROM over WHERE proxy.proxy_id = over.proxy_id
 RETURNING proxy.proxy_id, proxy.operator_disabled
"""


async def end_cooling(conn: Conn) -> dict[int, bool]:
    """Proxies whose cool-down is over, and whether a person keeps them disabled."""
    return {row["proxy_id"]: row["operator_disabled"] for row in await conn.fetch(END_COOLING)}
