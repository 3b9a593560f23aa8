"""Table proxies: those whose cool-down is about to end and who must be dialled first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from limpet.kit.pg import Conn


@dataclass(frozen=True, kw_only=True)
class Convalescent:
    """A claimed proxy, how to reach it, and how ill it was."""

    proxy_id: int
    protocol: str
    host: str
    port: int
    username: str
    password_sealed: str | None = field(repr=False)
    relapses: int
    relapsed_at: datetime | None
    claimed_until: datetime
    now: datetime


CLAIM: Final = """
    WITH over AS (
        SELECT proxy_id FROM proxies
         WHERE cooling_until <= statement_timestamp() + $2::interval AND NOT operator_disabled
         ORDER BY cooling_until LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE proxies AS proxy SET cooling_until = statement_timestamp() + $3::interval
      FROM over WHERE proxy.proxy_id = over.proxy_id
 RETURNING proxy.proxy_id, protocol, host, port, username, password_sealed, relapses, relapsed_at,
           cooling_until AS claimed_until, statement_timestamp() AS now
"""


async def claim(conn: Conn, *, limit: int, ahead: timedelta, claim_for: timedelta) -> list[Convalescent]:
    """Take some whose cool-down ends by then. They cool on meanwhile, so that nobody leases or claims them."""
    return [Convalescent(**row) for row in await conn.fetch(CLAIM, limit, ahead, claim_for)]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a probe found. No further cool-down: it may be used again."""

    proxy_id: int
    claimed_until: datetime
    relapses: int | None = None
    cooling_for: timedelta | None = None


RECORD: Final = """
    WITH new AS (
        SELECT * FROM unnest($1::bigint[], $2::timestamptz[], $3::integer[], $4::interval[])
               AS new (proxy_id, claimed_until, relapses, cooling_for)
    ), ours AS (
        SELECT proxy.proxy_id FROM proxies AS proxy
          JOIN new ON new.proxy_id = proxy.proxy_id AND new.claimed_until = proxy.cooling_until
         ORDER BY proxy.proxy_id FOR NO KEY UPDATE OF proxy
    )
    UPDATE proxies AS proxy
       SET cooling_until = statement_timestamp() + new.cooling_for, updated_at = now(),
           relapses = coalesce(new.relapses, proxy.relapses),
           relapsed_at = CASE WHEN new.relapses IS NULL THEN proxy.relapsed_at ELSE statement_timestamp() END
      FROM ours JOIN new USING (proxy_id)
     WHERE proxy.proxy_id = ours.proxy_id
 RETURNING proxy.proxy_id, proxy.cooling_until IS NULL AND NOT proxy.operator_disabled AS back
"""


async def record(conn: Conn, *, verdicts: Sequence[Verdict]) -> list[int]:
    """Write what probes found, unless a person decided in between; the proxies that are back."""
    rows = await conn.fetch(
        RECORD,
        [one.proxy_id for one in verdicts],
        [one.claimed_until for one in verdicts],
        [one.relapses for one in verdicts],
        [one.cooling_for for one in verdicts],
    )
    return [row["proxy_id"] for row in rows if row["back"]]
