"""What is old goes: what products were, quality by the hour, jobs that ended. Every hour, in short transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from limpet.kit.pg import COLLIDED, LOST, Conn, Pool
from limpet.parser.store.products import prune_products, prune_versions
from limpet.parser.store.quality import prune_fields, prune_hours
from limpet.parser.store.reparse_jobs import prune_jobs

log = structlog.get_logger()

EVERY: Final = 3600.0
BATCH: Final = 2_000
JOBS_KEPT: Final = timedelta(days=30)


@dataclass(frozen=True)
class Retention:
    pool: Pool
    # None: for ever.
    history: timedelta | None
    quality: timedelta
    batch: int = BATCH

    async def run(self) -> None:
        """A part."""
        while True:
            await self.round()
            await asyncio.sleep(EVERY)

    async def round(self) -> None:
        """Each step by itself: what one cannot do now, the others do all the same."""
        history, size = self.history, self.batch
        if history is not None:
            await self._step("versions_pruned", lambda conn: prune_versions(conn, older_than=history, limit=size))
            await self._step("products_pruned", lambda conn: prune_products(conn, gone_for=history, limit=size))
        await self._step("quality_pruned", lambda conn: prune_hours(conn, older_than=self.quality, limit=size))
        await self._step("fields_pruned", lambda conn: prune_fields(conn, older_than=self.quality, limit=size))
        await self._step("jobs_pruned", lambda conn: prune_jobs(conn, older_than=JOBS_KEPT, limit=size))

    async def _step(self, event: str, act: Callable[[Conn], Awaitable[int]]) -> None:
        done = self.batch
        try:
            while done >= self.batch:
                async with self.pool.acquire() as conn:
                    done = await act(conn)
                if done:
                    log.info(event, count=done)
        except (*LOST, *COLLIDED) as error:
            log.warning("retention_failed", step=event, error=repr(error))
