"""Report: how leases went; gives them back and learns, in one transaction of a handful of statements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from limpet.kit.pg import Conn, Pool
from limpet.proxy_broker import metrics
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.blame import Health, Threshold, Use, blocklist, clean, cool, forgive, judge
from limpet.proxy_broker.policy import Policy
from limpet.proxy_broker.store import (
    changes,
    domain_states,
    lease_ends,
    pair_health,
    policies,
    proxy_health,
    sticky_ends,
)
from limpet.proxy_broker.store.proxy_health import Patient
from limpet.proxy_broker.tally import PairKey, Tally, tally
from limpet.proxy_broker.tier import TierRule
from limpet.proxy_broker.trip import Lesson, Moved, Trip
from limpet.proxy_broker.wave import WaveRule

log = structlog.get_logger()


@dataclass(slots=True)
class _Learned:
    tally: Tally
    ended: Collection[int] = ()
    cooled_proxies: list[int] = field(default_factory=list)
    cooled_pairs: list[PairKey] = field(default_factory=list)
    lesson: Lesson = field(default_factory=Lesson)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Closing the lease is what counts a use, so a use counts once."""

    pool: Pool
    announce: Announce
    proxy: Threshold
    pair: Threshold
    block_cooldown: timedelta = timedelta(minutes=30)
    waves: WaveRule = field(default_factory=WaveRule)
    tiers: TierRule = field(default_factory=TierRule)

    async def report(self, uses: Sequence[Use]) -> int:
        """How many of these leases were still open."""
        [taken] = await self.report_many([uses])
        return taken

    async def report_many(self, calls: Sequence[Sequence[Use]]) -> list[int]:
        """The same for each of several callers, who are heard as one: a proxy that many of them used is written once."""
        uses = [use for call in calls for use in call]
        async with self.pool.acquire() as conn:
            while True:
                try:
                    async with conn.transaction():
                        learned = await self._learn(conn, uses)
                    break
                except Moved:
                    continue
        self._tell(learned)
        return _taken(calls, learned.ended)

    def _tell(self, learned: _Learned) -> None:
        """Only after the commit: what was rolled back never happened."""
        for outcome, count in learned.tally.outcomes.items():
            metrics.LEASES_CLOSED.labels(outcome).inc(count)
        for proxy_id in learned.cooled_proxies:
            log.warning("proxy_cooled", proxy_id=proxy_id)
            metrics.COOLED.labels("proxy").inc()
        for domain, proxy_id in learned.cooled_pairs:
            log.warning("pair_cooled", proxy_id=proxy_id, domain=domain)
            metrics.COOLED.labels("pair").inc()
        learned.lesson.tell()
        if learned.cooled_proxies:
            self.announce.wake()

    async def _learn(self, conn: Conn, uses: Sequence[Use]) -> _Learned:
        lease_ids = [use.lease_id for use in uses]
        patients = await proxy_health.lock_leased(conn, lease_ids=lease_ids)
        ended, now = await lease_ends.close(conn, lease_ids=lease_ids, proxy_ids=list(patients))
        learned = _Learned(tally(uses, ended), ended=ended)
        if now is not None:
            if patients:
                learned.cooled_proxies = await self._learn_proxies(conn, learned.tally, patients, now=now)
            await self._learn_pairs(conn, learned, patients, now=now)
        return learned

    async def _learn_proxies(
        self, conn: Conn, counted: Tally, patients: Mapping[int, Patient], *, now: datetime
    ) -> list[int]:
        health = {proxy_id: patients[proxy_id].health for proxy_id in counted.closed}
        for proxy_id, uses in counted.of_proxy.items():
            judge(health[proxy_id], uses, scope="proxy", now=now, threshold=self.proxy)
        for proxy_id in counted.ill_proxies:
            cool(health[proxy_id], now=now, threshold=self.proxy)
        await proxy_health.record(conn, closed=counted.closed, health=health, now=now)
        cooled = {proxy_id: one for proxy_id, one in health.items() if one.cooled}
        if cooled:
            await proxy_health.set_aside(conn, health=cooled)
            await changes.add(conn, proxy_ids=list(cooled), active=False, reason="failures")
        return list(cooled)

    async def _learn_pairs(
        self, conn: Conn, learned: _Learned, patients: Mapping[int, Patient], *, now: datetime
    ) -> None:
        counted = learned.tally
        states = await domain_states.find(conn, domains=list(counted.signs))
        moving = counted.eventful | {domain for domain, state in states.items() if state.wave or state.holds}
        found: dict[str, Policy] = {}
        if moving or counted.outcomes["proxy_failed"]:
            known = await policies.find(conn, domains=list(counted.signs))
            found = {domain: known.get(domain) or Policy(domain=domain) for domain in counted.signs}
        keys = {*counted.of_pair, *counted.ill_pairs}
        keys |= {
            (domain, proxy_id) for domain in moving & states.keys() for proxy_id in states[domain].wave if proxy_id
        }
        health = await pair_health.lock(conn, keys=keys) if keys else {}
        if new := counted.of_pair.keys() - health.keys():
            await pair_health.add(conn, keys=new)
            health |= await pair_health.lock(conn, keys=new)
        if moving:
            learned.lesson = await Trip(waves=self.waves, tiers=self.tiers).trip(
                conn,
                signs={domain: counted.signs[domain] for domain in moving},
                kinds={proxy_id: patient.kind for proxy_id, patient in patients.items()},
                policies=found,
                locked=keys,
                now=now,
            )
        self._judge_pairs(learned, health, patients, found, now=now)
        if told := {key: health[key] for key in counted.of_pair if key in health}:
            await pair_health.record(conn, health=told, now=now)
        if aside := {
            key: one for key, one in health.items() if one.failures or one.cooled or key in learned.lesson.forgiven
        }:
            await pair_health.set_aside(conn, health=aside, now=now)
        if homeless := [key for key, one in health.items() if one.blocks and patients[key[1]].kind != "datacenter"]:
            await sticky_ends.drop(conn, keys=homeless)

    def _judge_pairs(
        self,
        learned: _Learned,
        health: Mapping[PairKey, Health],
        patients: Mapping[int, Patient],
        found: Mapping[str, Policy],
        *,
        now: datetime,
    ) -> None:
        counted, forgiven = learned.tally, learned.lesson.forgiven
        for key, one in health.items():
            policy = found.get(key[0])
            threshold = self.pair if policy is None else self._threshold(policy)
            if key in counted.of_pair:
                judge(one, counted.of_pair[key], scope="pair", now=now, threshold=threshold)
                one.last_error = clean(one.last_error)
            if key in counted.ill_pairs:
                cool(one, now=now, threshold=threshold)
            if one.blocks:
                cooldown = (
                    self.block_cooldown if policy is None or policy.block_cooldown is None else policy.block_cooldown
                )
                blocklist(one, kind=patients[key[1]].kind, now=now, cooldown=cooldown)
            if key in forgiven:
                forgive(one, blocks=forgiven[key].blocks, since=forgiven[key].since, threshold=threshold)
            if one.cooled:
                learned.cooled_pairs.append(key)

    def _threshold(self, policy: Policy) -> Threshold:
        if policy.pair_failures is None and policy.pair_cooldown is None:
            return self.pair
        return Threshold(
            failures=policy.pair_failures or self.pair.failures,
            cooldown=self.pair.cooldown if policy.pair_cooldown is None else policy.pair_cooldown,
            cooldown_max=self.pair.cooldown_max,
        )


def _taken(calls: Sequence[Sequence[Use]], ended: Collection[int]) -> list[int]:
    """How many of the leases that ended each caller was the first to report."""
    left = set(ended)
    taken = []
    for uses in calls:
        mine = left.intersection([use.lease_id for use in uses])
        left -= mine
        taken.append(len(mine))
    return taken
