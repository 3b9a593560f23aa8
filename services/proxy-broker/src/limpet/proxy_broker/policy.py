"""What a person decides about a domain's proxies. Defaults where nobody has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

Strategy = Literal["lru", "sticky", "weighted"]
StickyBy = Literal["session", "hour"]
Kind = Literal["datacenter", "residential", "mobile"]
# From the cheapest to the dearest way to a site.
Tier = Literal["direct", "datacenter", "residential", "mobile"]
TIERS: Final[tuple[Tier, ...]] = ("direct", "datacenter", "residential", "mobile")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """None means the broker's own setting."""

    domain: str
    strategy: Strategy = "lru"
    sticky_by: StickyBy = "session"
    sticky_for: timedelta = timedelta(minutes=10)
    country_code: str = ""
    providers: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    tiers: tuple[Tier, ...] = ()
    pair_failures: int | None = None
    pair_cooldown: timedelta | None = None
    block_cooldown: timedelta | None = None
    wave_proxies: int | None = None
