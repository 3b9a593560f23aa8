"""Announce: what happened to proxies goes to the bus, once it is committed, in order, and never lost."""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg
import structlog

from limpet.contracts.events.v1.proxy_pb2 import ProxyChanged
from limpet.kit.bus import Bus
from limpet.kit.clock import to_stamp
from limpet.kit.errors import Retryable
from limpet.kit.pg import LOST, Pool
from limpet.proxy_broker.store import changes

log = structlog.get_logger()

BATCH: Final = 100
EVERY: Final = 2.0  # seconds; for what another broker left behind


class Announce:
    """The table is the outbox: a crash between commit and publish only delays the announcement."""

    def __init__(self, pool: Pool, bus: Bus) -> None:
        self._pool, self._bus = pool, bus
        self._news = asyncio.Event()

    def wake(self) -> None:
        """There may be something new; call it after the commit."""
        self._news.set()

    async def run(self) -> None:
        """A part."""
        while True:
            self._news.clear()
            try:
                while await self.announce() == BATCH:
                    pass
            except (*LOST, Retryable, asyncpg.OperatorInterventionError) as error:
                log.warning("announcing_postponed", error=repr(error))
            try:
                await asyncio.wait_for(self._news.wait(), EVERY)
            except TimeoutError:
                continue

    async def announce(self) -> int:
        """Publish the oldest changes; how many there were."""
        async with self._pool.acquire() as conn, conn.transaction():
            if not await changes.be_alone(conn):
                return 0
            found = await changes.list_oldest(conn, limit=BATCH)
            for change in found:
                message = ProxyChanged(
                    proxy_id=change.proxy_id,
                    active=change.active,
                    removed=change.removed,
                    reason=change.reason,
                    changed_time=to_stamp(change.changed_at),
                )
                await self._bus.publish(message, key=f"proxy-changed:{change.change_id}", suffix=str(change.proxy_id))
            if found:
                await changes.done(conn, change_ids=[change.change_id for change in found])
        return len(found)
