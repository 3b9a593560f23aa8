"""Tables policies, domain_states, budgets and pairs at once: where each domain of a call stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.line import Situation

FIND: Final = """
    SELECT asked.domain, statement_timestamp() AS now,
           EXISTS (SELECT FROM pairs WHERE pairs.domain = asked.domain AND pairs.assigned) AS pooled,
           coalesce(policy.strategy, 'lru') AS strategy,
           coalesce(policy.sticky_by, 'session') AS sticky_by,
           coalesce(policy.sticky_for, interval '10 minutes') AS sticky_for,
           coalesce(policy.country_code, '') AS country,
           coalesce(policy.tiers, '{}') AS tiers,
           coalesce(state.tier, '') AS tier,
           coalesce(state.tier_probe_at <= statement_timestamp(), false) AS probe_due,
           CASE WHEN state.held_until > statement_timestamp() THEN state.held_until END AS held_until,
           CASE WHEN budget.state = 'stopped' AND budget.month = date_trunc('month', statement_timestamp())::date
                THEN date_trunc('month', statement_timestamp()) + interval '1 month' END AS stopped_until
      FROM unnest($1::text[]) AS asked (domain)
      LEFT JOIN policies AS policy ON policy.domain = asked.domain
      LEFT JOIN domain_states AS state ON state.domain = asked.domain
      LEFT JOIN budgets AS budget ON budget.scope = 'domain' AND budget.name = asked.domain
"""


async def find(conn: Conn, *, domains: Sequence[str]) -> dict[str, Situation]:
    """One for each domain. One whose pool is all disabled still has a pool."""
    rows = await conn.fetch(FIND, list(domains))
    return {row["domain"]: Situation(**{**row, "tiers": tuple(row["tiers"])}) for row in rows}
