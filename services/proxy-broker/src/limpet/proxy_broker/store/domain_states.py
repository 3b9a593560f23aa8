"""Table domain_states: tier, wave of refusals and hold of each domain."""

from __future__ import annotations

from collections.abc import Sequence
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
