"""Trip: where a site refuses proxy after proxy, its domain climbs a tier or rests, and the proxies are forgiven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from limpet.kit.pg import Conn
from limpet.proxy_broker import metrics, tier, wave
from limpet.proxy_broker.domain_state import DomainState
from limpet.proxy_broker.policy import Kind, Policy
from limpet.proxy_broker.signs import Heard, hear
from limpet.proxy_broker.store import domain_states, members
from limpet.proxy_broker.tally import PairKey, Sign
from limpet.proxy_broker.tier import TierRule
from limpet.proxy_broker.wave import WaveRule

log = structlog.get_logger()


class Moved(Exception):  # not an error: the wave has grown since it was looked at; roll back and look again
    pass


@dataclass(frozen=True, kw_only=True)
class Forgiven:
    """Blocks of a pair that are the domain's doing, and since when."""

    blocks: int
    since: datetime


@dataclass(slots=True)
class Lesson:
    """What was learned about domains."""

    forgiven: dict[PairKey, Forgiven] = field(default_factory=dict)
    held: list[DomainState] = field(default_factory=list)
    climbed: list[DomainState] = field(default_factory=list)
    lowered: list[DomainState] = field(default_factory=list)

    def tell(self) -> None:
        for state in self.held:
            log.warning("domain_held", domain=state.domain, until=state.held_until, holds=state.holds)
            metrics.DOMAINS_HELD.inc()
        for state in self.climbed:
            log.warning("tier_climbed", domain=state.domain, tier=state.tier, probe_at=state.tier_probe_at)
            metrics.TIERS_CHANGED.labels("climbed").inc()
        for state in self.lowered:
            log.info("tier_lowered", domain=state.domain, tier=state.tier)
            metrics.TIERS_CHANGED.labels("lowered").inc()


@dataclass(frozen=True, kw_only=True)
class Trip:
    """Rows are written only where something changes."""

    waves: WaveRule
    tiers: TierRule

    async def trip(
        self,
        conn: Conn,
        *,
        signs: Mapping[str, Sequence[Sign]],
        kinds: Mapping[int, Kind],
        policies: Mapping[str, Policy],
        locked: Collection[PairKey],
        now: datetime,
    ) -> Lesson:
        """Learn from the signs of these domains. Their pairs are locked, those of their waves too."""
        before = await self._lock(conn, signs)
        heard = {
            domain: hear(
                state,
                signs[domain],
                kinds=kinds,
                tiers=policies[domain].tiers,
                now=now,
                waves=self.waves,
                probes=self.tiers,
            )
            for domain, state in before.items()
        }
        lesson = Lesson()
        for domain, one in heard.items():
            if one.lowered:
                lesson.lowered.append(one.state)
            for proxy_id, blocks in one.late.items():
                lesson.forgiven[domain, proxy_id] = Forgiven(blocks=blocks, since=now)
        if broken := await self._broken(conn, heard, policies):
            for domain in broken:
                _forgive(lesson, heard[domain].state, locked=locked)
            await self._react(conn, {domain: heard[domain] for domain in broken}, policies, lesson, now=now)
        if changed := [one.state for domain, one in heard.items() if one.state != before[domain]]:
            await domain_states.save(conn, states=changed)
        return lesson

    async def _lock(self, conn: Conn, domains: Collection[str]) -> dict[str, DomainState]:
        found = await domain_states.lock(conn, domains=domains)
        if new := [domain for domain in domains if domain not in found]:
            await domain_states.add(conn, domains=new)
            found |= await domain_states.lock(conn, domains=new)
        return found

    async def _broken(self, conn: Conn, heard: Mapping[str, Heard], policies: Mapping[str, Policy]) -> list[str]:
        """Domains whose wave breaks. Whether other proxies are left is asked only where the count does not decide."""
        fresh = {domain: one for domain, one in heard.items() if one.refused is not None}
        enough = {domain: policies[domain].wave_proxies or self.waves.proxies for domain in fresh}
        few = {
            domain: (one.refused or "") if policies[domain].tiers else ""
            for domain, one in fresh.items()
            if not wave.has_broken(one.state, proxies=enough[domain], others=True)
        }
        others = set(fresh) - set(few)
        if few:
            refused = {(domain, proxy_id) for domain in few for proxy_id in fresh[domain].state.wave}
            others |= await members.with_others(conn, kinds=few, refused=refused)
        return [
            domain
            for domain, one in fresh.items()
            if wave.has_broken(one.state, proxies=enough[domain], others=domain in others)
        ]

    async def _react(
        self,
        conn: Conn,
        broken: Mapping[str, Heard],
        policies: Mapping[str, Policy],
        lesson: Lesson,
        *,
        now: datetime,
    ) -> None:
        tiered = [domain for domain in broken if policies[domain].tiers]
        present = await members.kinds_of(conn, domains=tiered) if tiered else set()
        for domain, one in broken.items():
            tiers = policies[domain].tiers
            there = {kind for of, kind in present if of == domain}
            up = tier.dearer(one.state, tiers, than=one.refused, present=there) if one.refused and tiers else None
            if up is not None:
                one.state = tier.climbed(one.state, up, now=now, rule=self.tiers)
                lesson.climbed.append(one.state)
            else:
                one.state = wave.held(one.state, now=now, rule=self.waves)
                lesson.held.append(one.state)


def _forgive(lesson: Lesson, state: DomainState, *, locked: Collection[PairKey]) -> None:
    since = state.wave_began_at
    for proxy_id, blocks in Counter(state.wave).items():
        key = state.domain, proxy_id
        if proxy_id and since is not None:
            if key not in locked:
                raise Moved
            late = lesson.forgiven[key].blocks if key in lesson.forgiven else 0
            lesson.forgiven[key] = Forgiven(blocks=blocks + late, since=since)
