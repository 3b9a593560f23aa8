"""Table domain_states: tier, wave of refusals and hold of each domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.domain_state import DomainState

FIND: Final = """
    SELECT domain, tier, tier_changed_at, tier_probe_at, tier_relapses, wave, wave_began_at, held_until, holds
      FROM domain_states WHERE domain = ANY($1::text[])
"""


async def find(conn: Conn, *, domains: Sequence[str]) -> dict[str, DomainState]:
    """The state of each domain that has one, without a lock."""
    rows = await conn.fetch(FIND, list(domains))
    return {row["domain"]: DomainState(**{**row, "wave": tuple(row["wave"])}) for row in rows}


CLAIM_PROBES: Final = """
    WITH due AS (
        SELECT state.domain, probe.ttl
          FROM unnest($1::text[], $2::interval[]) AS probe (domain, ttl)
          JOIN domain_states AS state USING (domain)
         WHERE state.tier_probe_at <= statement_timestamp()
           FOR NO KEY UPDATE OF state SKIP LOCKED
    )
    UPDATE domain_states AS state SET tier_probe_at = statement_timestamp() + due.ttl
      FROM due WHERE state.domain = due.domain
 RETURNING state.domain
"""


async def claim_probes(conn: Conn, *, ttls: Mapping[str, timedelta]) -> list[str]:
    """Domains whose cheaper tier we may try now; the next try comes when this one's lease must have ended."""
    rows = await conn.fetch(CLAIM_PROBES, list(ttls), list(ttls.values()))
    return [row["domain"] for row in rows]
