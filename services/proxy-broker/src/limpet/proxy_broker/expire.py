"""Expire: leases of dead holders come back, and sessions that are over are forgotten."""

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
from limpet.proxy_broker.store import lease_ends, proxy_health, sticky_ends

log = structlog.get_logger()

BATCH: Final = 500


@dataclass(frozen=True, kw_only=True)
class Expire:
    """Any number may run at once: what one collects, the other does not find."""

    pool: Pool
    every: timedelta

    async def run(self) -> None:
        """A part."""
        while True:
            try:
                while await self.expire() == BATCH:
                    pass
                while await self.end_sessions() == BATCH:
                    pass
            except (*LOST, asyncpg.OperatorInterventionError) as error:
                log.warning("expiry_postponed", error=repr(error))
            await asyncio.sleep(self.every.total_seconds())

    async def expire(self) -> int:
        """Give back what expired; nobody is blamed, and the hour stays charged."""
        async with self.pool.acquire() as conn, conn.transaction():
            dead = await lease_ends.expired(conn, limit=BATCH)
            if not dead:
                return 0
            proxy_ids = sorted({proxy_id for proxy_id in dead.values() if proxy_id is not None})
            await proxy_health.lock(conn, proxy_ids=proxy_ids)
            ended, _ = await lease_ends.close(conn, lease_ids=list(dead), proxy_ids=proxy_ids)
            if closed := Counter(lease.proxy_id for lease in ended.values() if lease.proxy_id is not None):
                await proxy_health.give_back(conn, closed=closed)
        if ended:
            metrics.LEASES_EXPIRED.inc(len(ended))
            log.warning("leases_expired", count=len(ended))
        return len(dead)

    async def end_sessions(self) -> int:
        """Forget which proxy a session kept, once it was not used for long or its hour is over."""
        async with self.pool.acquire() as conn:
            return await sticky_ends.expire(conn, limit=BATCH)
