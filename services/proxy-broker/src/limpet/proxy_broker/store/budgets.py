"""Table budgets: a month's money for a domain or a provider, and how much of it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.budget import Scope, State

Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Budget:
    scope: Scope
    name: str
    monthly_amount: Decimal
    alert_share: float
    month: date | None
    spent: Decimal
    state: State
    created_at: datetime
    updated_at: datetime

    @property
    def key(self) -> Key:
        return self.scope, self.name


SAVE: Final = """
    INSERT INTO budgets (scope, name, monthly_amount, alert_share) VALUES ($1, $2, $3, $4)
    ON CONFLICT (scope, name) DO UPDATE
       SET monthly_amount = excluded.monthly_amount, alert_share = excluded.alert_share, updated_at = now()
"""


async def save(conn: Conn, *, scope: Scope, name: str, monthly_amount: Decimal, alert_share: float) -> None:
    """State and what is spent follow by `record`."""
    await conn.execute(SAVE, scope, name, monthly_amount, alert_share)


LIST: Final = """
    SELECT scope, name, monthly_amount, alert_share, month, spent, state, created_at, updated_at
      FROM budgets
     WHERE (scope, name) > ($1, $2)
     ORDER BY scope, name LIMIT $3
"""


async def list_after(conn: Conn, *, after: Key = ("", ""), limit: int) -> list[Budget]:
    return [Budget(**row) for row in await conn.fetch(LIST, *after, limit)]


GET: Final = """
    SELECT scope, name, monthly_amount, alert_share, month, spent, state, created_at, updated_at
      FROM budgets WHERE scope = $1 AND name = $2
"""


async def get(conn: Conn, *, scope: Scope, name: str) -> Budget | None:
    row = await conn.fetchrow(GET, scope, name)
    return Budget(**row) if row is not None else None


REMOVE: Final = "DELETE FROM budgets WHERE scope = $1 AND name = $2 RETURNING name"


async def remove(conn: Conn, *, scope: Scope, name: str) -> bool:
    return await conn.fetchval(REMOVE, scope, name) is not None


LOCK: Final = """
    SELECT scope, name, monthly_amount, alert_share, month, spent, state, created_at, updated_at
      FROM budgets ORDER BY scope, name FOR NO KEY UPDATE
"""


async def lock(conn: Conn) -> list[Budget]:
    return [Budget(**row) for row in await conn.fetch(LOCK)]


SPENT: Final = """
    WITH used AS (
        SELECT domain, provider, monthly_cost, cost_per_gb, byte_count,
               (success_count + failure_count)::numeric AS uses,
               sum(success_count + failure_count) OVER (PARTITION BY hour, proxy_id) AS of_proxy
          FROM usage_hours WHERE hour >= $1 AND hour < $2
    )
    SELECT 'domain' AS scope, domain AS name, coalesce(sum(monthly_cost * uses / nullif(of_proxy, 0)), 0) AS price_hours,
           coalesce(sum(cost_per_gb * byte_count), 0) AS price_bytes
      FROM used WHERE domain IN (SELECT name FROM budgets WHERE scope = 'domain') GROUP BY domain
     UNION ALL
    SELECT 'provider', provider, coalesce(sum(monthly_cost * uses / nullif(of_proxy, 0)), 0),
           coalesce(sum(cost_per_gb * byte_count), 0)
      FROM used WHERE provider IN (SELECT name FROM budgets WHERE scope = 'provider') GROUP BY provider
"""


async def spent(conn: Conn, *, since: datetime, until: datetime) -> dict[Key, tuple[Decimal, Decimal]]:
    """Prices times hours and prices times bytes of each budget's period; those that spent nothing are not here."""
    rows = await conn.fetch(SPENT, since, until)
    return {(row["scope"], row["name"]): (row["price_hours"], row["price_bytes"]) for row in rows}


RECORD: Final = """
    UPDATE budgets AS budget SET month = $1, spent = new.spent, state = new.state
      FROM unnest($2::text[], $3::text[], $4::numeric[], $5::text[]) AS new (scope, name, spent, state)
     WHERE budget.scope = new.scope AND budget.name = new.name
       AND (budget.month, budget.spent, budget.state) IS DISTINCT FROM ($1, new.spent, new.state)
"""


async def record(conn: Conn, *, month: date, found: Sequence[tuple[Key, Decimal, State]]) -> None:
    """What locked budgets have spent this month, and what follows."""
    keys = [key for key, _, _ in found]
    await conn.execute(
        RECORD,
        month,
        [scope for scope, _ in keys],
        [name for _, name in keys],
        [amount for _, amount, _ in found],
        [state for _, _, state in found],
    )


NOW: Final = "SELECT statement_timestamp()"


async def now(conn: Conn) -> datetime:
    """The month is the database's."""
    moment: datetime = await conn.fetchval(NOW)
    return moment
