"""Table policies: what a person decided about a domain's proxies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from limpet.kit.pg import Conn
from limpet.proxy_broker.policy import Policy

FIND: Final = """
    SELECT domain, strategy, sticky_by, sticky_for, country_code, providers, kinds, tiers, pair_failures, pair_cooldown,
           block_cooldown, wave_proxies
      FROM policies WHERE domain = ANY($1::text[])
"""


async def find(conn: Conn, *, domains: Sequence[str]) -> dict[str, Policy]:
    """The policy of each domain that has one."""
    found = {}
    for row in await conn.fetch(FIND, list(domains)):
        lists = {name: tuple(row[name]) for name in ("providers", "kinds", "tiers")}
        found[row["domain"]] = Policy(**{**row, **lists})
    return found


SAVE: Final = """
    INSERT INTO policies (domain, strategy, sticky_by, sticky_for, country_code, providers, kinds, tiers, pair_failures,
                          pair_cooldown, block_cooldown, wave_proxies)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (domain) DO UPDATE
       SET strategy = excluded.strategy, sticky_by = excluded.sticky_by, sticky_for = excluded.sticky_for,
           country_code = excluded.country_code, providers = excluded.providers, kinds = excluded.kinds,
           tiers = excluded.tiers, pair_failures = excluded.pair_failures, pair_cooldown = excluded.pair_cooldown,
           block_cooldown = excluded.block_cooldown, wave_proxies = excluded.wave_proxies, updated_at = now()
"""


async def save(conn: Conn, policy: Policy) -> None:
    await conn.execute(
        SAVE,
        policy.domain,
        policy.strategy,
        policy.sticky_by,
        policy.sticky_for,
        policy.country_code,
        policy.providers,
        policy.kinds,
        policy.tiers,
        policy.pair_failures,
        policy.pair_cooldown,
        policy.block_cooldown,
        policy.wave_proxies,
    )
