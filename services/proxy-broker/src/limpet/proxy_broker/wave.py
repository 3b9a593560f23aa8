"""When a site refuses one proxy after the other, the domain is ill and not the proxies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from limpet.proxy_broker.domain_state import DomainState

LONGEST: Final = 200  # refusals that are remembered; a wave breaks long before


@dataclass(frozen=True, kw_only=True)
class WaveRule:
    """So many distinct proxies within a window are a wave; where no tier is left, the domain rests."""

    proxies: int = 3
    window: timedelta = timedelta(minutes=5)
    hold: timedelta = timedelta(minutes=5)
    hold_max: timedelta = timedelta(days=1)


def is_held(state: DomainState, *, now: datetime) -> bool:
    return state.held_until is not None and state.held_until > now


def refused(state: DomainState, proxy_id: int, *, now: datetime, rule: WaveRule) -> DomainState:
    """The site refused this proxy, or the direct way (0)."""
    began = state.wave_began_at
    if began is None or began <= now - rule.window:
        return replace(state, wave=(proxy_id,), wave_began_at=now)
    return replace(state, wave=(*state.wave, proxy_id)[-LONGEST:])


def served(state: DomainState) -> DomainState:
    """The site answered: no wave, and the next hold is a first one again."""
    if not state.wave and not state.holds:
        return state
    return replace(state, wave=(), wave_began_at=None, held_until=None, holds=0)


def has_broken(state: DomainState, *, proxies: int, others: bool) -> bool:
    """Enough distinct proxies were refused, or all that there are."""
    return bool(state.wave) and (len(set(state.wave)) >= proxies or not others)


def held(state: DomainState, *, now: datetime, rule: WaveRule) -> DomainState:
    """Nothing dearer to try: the domain rests, each time for longer."""
    length = min(rule.hold * 2 ** min(state.holds, 16), rule.hold_max)
    return replace(state, wave=(), wave_began_at=None, held_until=now + length, holds=state.holds + 1)
