"""A table as an outbox: what was committed is published afterwards, in order, and never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg
import structlog

from limpet.kit.errors import Retryable
from limpet.kit.pg import LOST, Conn, Pool

log = structlog.get_logger()

BATCH: Final = 100
EVERY: Final = 2.0  # seconds; for what another process left behind


class Outbox:
    """A crash between commit and publish only delays the announcement.

    `send` publishes up to BATCH of the oldest entries, takes them out of the table and returns how many there were.
    """

    def __init__(self, pool: Pool, send: Callable[[Conn], Awaitable[int]]) -> None:
        self._pool, self._send = pool, send
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
        """Publish the oldest entries; how many there were."""
        async with self._pool.acquire() as conn, conn.transaction():
            return await self._send(conn)
