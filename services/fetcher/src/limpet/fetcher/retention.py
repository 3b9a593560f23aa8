"""What is old goes: rows of answers by their age, then the packs of the page store that no answer refers to any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from limpet.fetcher.metrics import PRUNED
from limpet.fetcher.store import packs, responses
from limpet.kit.blobs import Blobs
from limpet.kit.errors import Retryable
from limpet.kit.pg import COLLIDED, LOST, Conn, Pool

log = structlog.get_logger()

EVERY = 3600.0
BATCH = 2000
# Longer than any answer is on its way from finding a known body to its row.
GRACE = timedelta(hours=1)


@dataclass(frozen=True)
class Retention:
    pool: Pool
    blobs: Blobs
    # How long answers are kept, and bodies after their last use. None: for ever.
    kept: timedelta | None
    grace: timedelta = GRACE
    batch: int = BATCH

    async def run(self) -> None:
        """A part."""
        while True:
            await self.round()
            await asyncio.sleep(EVERY)

    async def round(self) -> None:
        """Rows first: a pack goes only when none of them can refer to it."""
        kept = self.kept
        if kept is None:
            return
        await self._step("responses_pruned", lambda conn: responses.prune(conn, older_than=kept, limit=self.batch))
        await self._step("packs_condemned", lambda conn: packs.condemn(conn, unused_for=kept, limit=self.batch))
        await self._step("packs_dropped", self._drop)

    async def _drop(self, conn: Conn) -> int:
        """The objects go before the rows are gone for good: if either fails, both are tried again."""
        names = await packs.forget(conn, condemned_for=self.grace, limit=self.batch)
        await self.blobs.drop(names)
        return len(names)

    async def _step(self, event: str, act: Callable[[Conn], Awaitable[int]]) -> None:
        done = self.batch
        try:
            # Short transactions: nobody waits long for what is pruned.
            while done >= self.batch:
                async with self.pool.acquire() as conn, conn.transaction():
                    done = await act(conn) if await packs.take_turn(conn) else 0
                PRUNED.labels(event).inc(done)
                if done:
                    log.info(event, count=done)
        except (*LOST, *COLLIDED, Retryable) as error:
            log.warning("retention_failed", step=event, error=repr(error))
