"""Which way to a site is cheap enough and good enough: up after a wave, down after a probe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from limpet.proxy_broker.domain_state import DomainState
from limpet.proxy_broker.policy import Tier


@dataclass(frozen=True, kw_only=True)
class TierRule:
    """When a cheaper tier is tried again, and how long at most until then."""

    probe_after: timedelta = timedelta(hours=1)
    probe_max: timedelta = timedelta(days=1)


def current(state: DomainState, tiers: Sequence[Tier]) -> Tier | None:
    """The tier in use. None: the policy has no tiers."""
    return next((tier for tier in tiers if tier == state.tier), tiers[0] if tiers else None)


def is_below(tier: Tier, state: DomainState, tiers: Sequence[Tier]) -> bool:
    """Is this a tier that the domain has left behind?"""
    now_in = current(state, tiers)
    return now_in is not None and tier in tiers and tiers.index(tier) < tiers.index(now_in)


def dearer(state: DomainState, tiers: Sequence[Tier], *, than: Tier, present: Collection[str]) -> Tier | None:
    """The next tier above this one and above the current one that has any proxy."""
    now_in = current(state, tiers)
    if now_in is None:
        return None
    floor = max(tiers.index(now_in), tiers.index(than) if than in tiers else 0)
    return next((tier for tier in tiers[floor + 1 :] if tier in present), None)


def climbed(state: DomainState, tier: Tier, *, now: datetime, rule: TierRule) -> DomainState:
    """A wave broke: this tier from now on. Fallen back to soon after a descent, the next probe waits for longer."""
    recent = state.tier_changed_at is not None and state.tier_changed_at > now - 2 * rule.probe_max
    relapses = state.tier_relapses if recent else 0
    return replace(
        state,
        tier=tier,
        tier_changed_at=now,
        tier_relapses=relapses,
        tier_probe_at=now + _wait(relapses, rule),
        wave=(),
        wave_began_at=None,
        held_until=None,
        holds=0,
    )


def lowered(state: DomainState, tier: Tier, tiers: Sequence[Tier], *, now: datetime, rule: TierRule) -> DomainState:
    """A probe of a cheaper tier came through: down to it, and a look further down in time."""
    if not is_below(tier, state, tiers):
        return state
    further = tier != tiers[0]
    return replace(
        state,
        tier=tier,
        tier_changed_at=now,
        tier_relapses=state.tier_relapses + 1,
        tier_probe_at=now + rule.probe_after if further else None,
        wave=(),
        wave_began_at=None,
        held_until=None,
        holds=0,
    )


def put_off(state: DomainState, *, now: datetime, rule: TierRule) -> DomainState:
    """The probe was refused: the next one waits twice as long."""
    relapses = state.tier_relapses + 1
    return replace(state, tier_relapses=relapses, tier_probe_at=now + _wait(relapses, rule))


def _wait(relapses: int, rule: TierRule) -> timedelta:
    grown: timedelta = rule.probe_after * 2 ** min(relapses, 16)
    return min(grown, rule.probe_max)
