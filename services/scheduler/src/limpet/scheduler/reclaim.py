"""What nobody reported on comes back: expired permits make their tasks due again, lost parses are asked for again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import asyncpg
import structlog

from limpet.contracts.events.v1.page_pb2 import PageFetched, ParseRequested
from limpet.kit.bus import Bus
from limpet.kit.errors import Retryable
from limpet.kit.pg import LOST, Pool
from limpet.scheduler.metrics import PARSES_ASKED, PERMITS_EXPIRED
from limpet.scheduler.retry import MAX_LOSSES
from limpet.scheduler.store.attempts import Attempt, add_attempts
from limpet.scheduler.store.domains import give_back, give_back_groups, lock_domain_ids
from limpet.scheduler.store.permits import expired_permits, release_permits, still_expired
from limpet.scheduler.store.tasks import ask_parses, expire_fetches, lock_tasks

log = structlog.get_logger()
BATCH = 500


@dataclass(frozen=True)
class Reclaim:
    pool: Pool
    bus: Bus
    parse_lease: timedelta
    every: float
    freed: Callable[[], None]

    async def run(self) -> None:
        """A part."""
        while True:
            try:
                expired = await self.expire_permits()
                asked = await self.ask_parses()
                if expired:
                    self.freed()
                if expired == BATCH or asked == BATCH:
                    continue
            except (*LOST, asyncpg.PostgresError, Retryable) as error:
                log.warning("reclaim_failed", error=repr(error))
            await asyncio.sleep(self.every)

    async def expire_permits(self) -> int:
        async with self.pool.acquire() as conn, conn.transaction():
            keys = await expired_permits(conn, limit=BATCH)
            if not keys:
                return 0
            await lock_tasks(conn, sorted({key[0] for key in keys}))
            keys = await still_expired(conn, keys)
            due = await expire_fetches(conn, keys, max_losses=MAX_LOSSES)
            lost = [
                Attempt(task_id, attempt, "fetch", None, "lost", error="its permit expired")
                for task_id, attempt in keys
            ]
            await add_attempts(conn, lost)
            back = await release_permits(conn, keys)
            counts: Counter[int] = Counter()
            for domain_id, _, count in back:
                counts[domain_id] += count
            await lock_domain_ids(conn, sorted(counts.keys() | set(due)))
            await give_back(
                conn, [(domain_id, counts[domain_id], 0.0, 0.0, "") for domain_id in counts.keys() | set(due)]
            )
            await give_back_groups(
                conn, [(domain_id, group, count) for domain_id, group, count in back if group is not None]
            )
        PERMITS_EXPIRED.inc(len(keys))
        log.warning("permits_expired", count=len(keys))
        return len(keys)

    async def ask_parses(self) -> int:
        async with self.pool.acquire() as conn, conn.transaction():
            pages = await ask_parses(conn, limit=BATCH, lease=self.parse_lease, max_losses=MAX_LOSSES)
        if pages:
            PARSES_ASKED.inc(len(pages))
            await asyncio.gather(
                *(self.bus.record(ParseRequested(page=PageFetched.FromString(page))) for page in pages)
            )
            log.info("parses_asked", count=len(pages))
        return len(pages)
