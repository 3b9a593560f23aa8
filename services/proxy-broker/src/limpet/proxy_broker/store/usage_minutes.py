"""Table usage_minutes: how the domains did in the last hours, minute by minute. Written with usage_hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from limpet.kit.pg import Conn


@dataclass(frozen=True, kw_only=True)
class Failing:
    """A domain whose proxies failed too often."""

    domain: str
    success_count: int
    failure_count: int


LIST_FAILING: Final = """
    SELECT used.domain, sum(used.success_count)::bigint AS success_count,
           sum(used.failure_count)::bigint AS failure_count
      FROM usage_minutes AS used LEFT JOIN domains AS known ON known.name = used.domain
     WHERE used.minute > statement_timestamp() - interval '1 hour' AND known.active IS NOT FALSE
     GROUP BY used.domain
    HAVING sum(used.success_count + used.failure_count) >= $2
       AND sum(used.failure_count) > $1::float8 * sum(used.success_count + used.failure_count)
     ORDER BY used.domain
"""


async def list_failing(conn: Conn, *, share: float, least: int) -> list[Failing]:
    """Domains with more than this share of failures in the last hour, of at least so many uses."""
    return [Failing(**row) for row in await conn.fetch(LIST_FAILING, share, least)]


PRUNE: Final = """
    WITH pruned AS (DELETE FROM usage_minutes WHERE minute < statement_timestamp() - $1::interval RETURNING 1)
    SELECT count(*) FROM pruned
"""


async def prune(conn: Conn, *, older_than: timedelta) -> int:
    return int(await conn.fetchval(PRUNE, older_than))
