"""Batches that have had their bytes: what is left of them is cancelled."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import asyncpg
import structlog

from limpet.kit.pg import COLLIDED, LOST, Pool
from limpet.scheduler.act import Wish, act_on_batch
from limpet.scheduler.command import Command
from limpet.scheduler.store.batches import overdrawn

log = structlog.get_logger()
ACTOR = "budget"


@dataclass(frozen=True)
class Spend:
    pool: Pool
    every: float = 1.0

    async def run(self) -> None:
        """A part."""
        while True:
            await asyncio.sleep(self.every)
            try:
                await self.round()
            except (*LOST, *COLLIDED, asyncpg.PostgresError) as error:
                log.warning("spend_failed", error=repr(error))

    async def round(self) -> int:
        async with self.pool.acquire() as conn:
            spent = await overdrawn(conn)
        changed = 0
        for batch_id in spent:
            changed += await act_on_batch(self.pool, batch_id, Wish(Command.CANCEL, ACTOR))
            log.info("batch_spent", batch_id=batch_id)
        return changed
