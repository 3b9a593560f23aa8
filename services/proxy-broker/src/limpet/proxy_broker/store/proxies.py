"""Table proxies: what they are and who may use them. How they do is in proxy_health."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from limpet.kit.pg import Conn


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
