"""Table domain_states: tier, wave of refusals and hold of each domain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.domain_state import DomainState
from limpet.proxy_broker.literals import numbers

FIND: Final = """
    SELECT domain, tier, tier_changed_at, tier_probe_at, tier_relapses, wave, wave_began_at, held_until, holds
      FROM domain_states WHERE domain = ANY($1::text[])
"""


async def find(conn: Conn, *, domains: Sequence[str]) -> dict[str, DomainState]:
    """The state of each domain that has one, without a lock."""
    return _states(await conn.fetch(FIND, list(domains)))


ADD: Final = """
    INSERT INTO domain_states (domain) SELECT domain FROM unnest($1::text[]) AS new (domain) ORDER BY domain
    ON CONFLICT (domain) DO NOTHING
"""


async def add(conn: Conn, *, domains: Collection[str]) -> None:
    """Begin to remember these domains."""
    await conn.execute(ADD, list(domains))


LOCK: Final = """
    SELECT domain, tier, tier_changed_at, tier_probe_at, tier_relapses, wave, wave_began_at, held_until, holds
      FROM domain_states WHERE domain = ANY($1::text[])
     ORDER BY domain FOR NO KEY UPDATE
"""


async def lock(conn: Conn, *, domains: Collection[str]) -> dict[str, DomainState]:
    """The states of domains that have one, held until they are saved. Comes after pairs."""
    return _states(await conn.fetch(LOCK, list(domains)))


SAVE: Final = """
    UPDATE domain_states AS state
       SET tier = new.tier, tier_changed_at = new.tier_changed_at, tier_probe_at = new.tier_probe_at,
           tier_relapses = new.tier_relapses, wave = new.wave::bigint[], wave_began_at = new.wave_began_at,
           held_until = new.held_until, holds = new.holds
      FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::integer[], $6::text[],
                  $7::timestamptz[], $8::timestamptz[], $9::integer[])
           AS new (domain, tier, tier_changed_at, tier_probe_at, tier_relapses, wave, wave_began_at, held_until, holds)
     WHERE state.domain = new.domain
"""


async def save(conn: Conn, *, states: Sequence[DomainState]) -> None:
    """Write locked states that changed."""
    await conn.execute(
        SAVE,
        [state.domain for state in states],
        [state.tier for state in states],
        [state.tier_changed_at for state in states],
        [state.tier_probe_at for state in states],
        [state.tier_relapses for state in states],
        # Arrays of different lengths do not fit into one array: each goes as its text.
        [numbers(state.wave) for state in states],
        [state.wave_began_at for state in states],
        [state.held_until for state in states],
        [state.holds for state in states],
    )


def _states(rows: Sequence[Any]) -> dict[str, DomainState]:
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
