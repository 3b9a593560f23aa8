"""Report: how leases went; gives them back and learns, in one transaction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from limpet.kit.pg import Conn, Pool
from limpet.proxy_broker import metrics
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.blame import OF_PAIR, OF_PROXY, Health, Threshold, Use, judge
from limpet.proxy_broker.store import changes, leases, pair_health, proxy_health
from limpet.proxy_broker.store.pair_health import Key

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Report:
    """Closing the lease is what counts a use, so a use counts once."""

    pool: Pool
    announce: Announce
    proxy: Threshold
    pair: Threshold

    async def report(self, uses: Sequence[Use]) -> int:
        """How many of these leases were still open."""
        async with self.pool.acquire() as conn, conn.transaction():
            taken, cooled_proxies, cooled_pairs = await self._learn(conn, uses)
        # Told only after the commit: what was rolled back never happened.
        for outcome, count in Counter(use.outcome for use in taken).items():
            metrics.LEASES_CLOSED.labels(outcome).inc(count)
        for proxy_id in cooled_proxies:
            log.warning("proxy_cooled", proxy_id=proxy_id)
            metrics.COOLED.labels("proxy").inc()
        for domain, proxy_id in cooled_pairs:
            log.warning("pair_cooled", proxy_id=proxy_id, domain=domain)
            metrics.COOLED.labels("pair").inc()
        if cooled_proxies:
            self.announce.wake()
        return len(taken)

    async def _learn(self, conn: Conn, uses: Sequence[Use]) -> tuple[list[Use], list[int], list[Key]]:
        lease_ids = [use.lease_id for use in uses]
        patients = await proxy_health.lock(conn, proxy_ids=await leases.proxies_of(conn, lease_ids=lease_ids))
        closed = await leases.close(conn, lease_ids=lease_ids)
        if not closed:
            return [], [], []
        # The first report of a lease counts, also within one call.
        taken = [use for use in {use.lease_id: use for use in reversed(uses)}.values() if use.lease_id in closed]
        taken.reverse()
        of_proxy: dict[int, list[Use]] = defaultdict(list)
        of_pair: dict[Key, list[Use]] = defaultdict(list)
        for use in taken:
            of_pair[closed[use.lease_id]].append(use)
            of_proxy[closed[use.lease_id][1]].append(use)
        now = max(patient.now for patient in patients)
        cooled_proxies = await self._learn_proxies(conn, patients, of_proxy, now=now)
        return taken, cooled_proxies, await self._learn_pairs(conn, of_pair, now=now)

    async def _learn_proxies(
        self, conn: Conn, patients: list[proxy_health.Patient], uses: dict[int, list[Use]], *, now: datetime
    ) -> list[int]:
        before = {patient.proxy_id: patient for patient in patients if patient.proxy_id in uses}
        after: dict[int, Health] = {
            proxy_id: judge(patient, uses[proxy_id], blame=OF_PROXY, now=now, threshold=self.proxy)
            for proxy_id, patient in before.items()
        }
        await proxy_health.record(conn, closed={key: len(mine) for key, mine in uses.items()}, health=after)
        cooled = [key for key in after if after[key].cooling_until != before[key].cooling_until]
        if cooled:
            await changes.add(conn, proxy_ids=cooled, active=False, reason="failures")
        return cooled

    async def _learn_pairs(self, conn: Conn, uses: dict[Key, list[Use]], *, now: datetime) -> list[Key]:
        before = await pair_health.lock(conn, keys=uses)
        after = {
            key: judge(health, uses[key], blame=OF_PAIR, now=now, threshold=self.pair) for key, health in before.items()
        }
        await pair_health.record(conn, health=after)
        return [key for key in after if after[key].cooling_until != before[key].cooling_until]
