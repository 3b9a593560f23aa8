"""Expire: leases of dead holders come back, and cool-downs end."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import asyncpg
import structlog

from limpet.kit.pg import LOST, Pool
from limpet.proxy_broker import metrics
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.store import changes, leases, proxy_health

log = structlog.get_logger()

BATCH: Final = 500


@dataclass(frozen=True, kw_only=True)
class Expire:
    """Any number may run at once: what one collects, the other does not find."""

    pool: Pool
    announce: Announce
    every: timedelta

    async def run(self) -> None:
        """A part."""
        while True:
            try:
                while await self.expire() == BATCH:
                    pass
                await self.end_cooling()
            except (*LOST, asyncpg.OperatorInterventionError) as error:
                log.warning("expiry_postponed", error=repr(error))
            await asyncio.sleep(self.every.total_seconds())

    async def expire(self) -> int:
        """Give back what expired; nobody is blamed, and the hour stays charged."""
        async with self.pool.acquire() as conn, conn.transaction():
            dead = await leases.expired(conn, limit=BATCH)
            if not dead:
                return 0
            await proxy_health.lock(conn, proxy_ids=sorted(set(dead.values())))
            closed = await leases.close(conn, lease_ids=list(dead))
            if closed:
                await proxy_health.give_back(conn, closed=Counter(proxy_id for _, proxy_id in closed.values()))
        if closed:
            metrics.LEASES_EXPIRED.inc(len(closed))
            log.warning("leases_expired", count=len(closed))
        return len(dead)

    async def end_cooling(self) -> int:
        """Proxies whose cool-down is over may be tried again, one lease at a time."""
        async with self.pool.acquire() as conn, conn.transaction():
            over = await proxy_health.end_cooling(conn)
            if back := [proxy_id for proxy_id, disabled in over.items() if not disabled]:
                await changes.add(conn, proxy_ids=back, active=True, reason="cooldown_over")
        if back:
            log.info("proxies_back", proxy_ids=back)
            self.announce.wake()
        return len(over)
