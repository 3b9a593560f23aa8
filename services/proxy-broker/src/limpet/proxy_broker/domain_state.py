"""What the brokers have learned about a domain together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class DomainState:
    """A domain without a row is in this state."""

    domain: str
    # Empty means the cheapest tier of the policy.
    tier: str = ""
    tier_changed_at: datetime | None = None
    tier_probe_at: datetime | None = None
    tier_relapses: int = 0
    # Distinct proxies that the site refused since the last success; 0 stands for no proxy at all.
    wave: tuple[int, ...] = ()
    wave_began_at: datetime | None = None
    held_until: datetime | None = None
    holds: int = 0
