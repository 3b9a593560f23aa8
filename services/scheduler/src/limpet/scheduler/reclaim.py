"""What nobody reported on comes back: expired permits make their tasks due again, lost parses are asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg
import structlog

from limpet.contracts.events.v1.page_pb2 import PageFetched, ParseRequested
from limpet.kit.bus import Bus
from limpet.kit.errors import Retryable
from limpet.kit.pg import COLLIDED, LOST, Conn, Pool
from limpet.scheduler.conclude import conclude
from limpet.scheduler.give_back import News, give_back
from limpet.scheduler.lifecycle import PARSE_PHASE, Status
from limpet.scheduler.metrics import PARSES_ASKED, PERMITS_EXPIRED
from limpet.scheduler.outcome import TaskRow
from limpet.scheduler.retry import MAX_LOSSES
from limpet.scheduler.store.attempts import Attempt, add_attempts
from limpet.scheduler.store.parse_leases import late_parses, page_facts, renew_leases, still_late
from limpet.scheduler.store.permits import expired_permits, release_permits, still_expired
from limpet.scheduler.store.tasks import change_tasks, count_losses, lock_free_tasks, lock_tasks

log = structlog.get_logger()
BATCH = 500
FETCH_LOST = "no fetcher reported before its permit expired, too often"
PARSE_LOST = "no parser reported before its lease expired, too often"


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
            except (*LOST, *COLLIDED, asyncpg.PostgresError, Retryable) as error:
                log.warning("reclaim_failed", error=repr(error))
            await asyncio.sleep(self.every)

    async def expire_permits(self) -> int:
        async with self.pool.acquire() as conn, conn.transaction():
            keys = await expired_permits(conn, limit=BATCH)
            if not keys:
                return 0
            tasks = await lock_tasks(conn, sorted({key[0] for key in keys}))
            keys = await still_expired(conn, keys)
            live = [tasks[task_id] for task_id, attempt in keys if tasks[task_id].is_live(attempt)]
            losses = await count_losses(conn, [task.task_id for task in live], phase="fetch")
            await self._lose(conn, live, losses, event="fetch_lost", error=FETCH_LOST, back=Status.PENDING)
            lost = [
                Attempt(task_id, attempt, "fetch", None, "lost", error="its permit expired")
                for task_id, attempt in keys
            ]
            await add_attempts(conn, lost)
            news: dict[int, News] = {}
            for task in live:
                if task.status is Status.PENDING:
                    news.setdefault(task.domain_id, News()).due.append((task.group_key, task.priority))
            await give_back(conn, await release_permits(conn, keys), news)
            await conclude(conn, live)
        PERMITS_EXPIRED.inc(len(keys))
        log.warning("permits_expired", count=len(keys))
        return len(keys)

    async def ask_parses(self) -> int:
        async with self.pool.acquire() as conn, conn.transaction():
            late = await late_parses(conn, limit=BATCH)
            if not late:
                return 0
            tasks = await lock_free_tasks(conn, late)
            late_still = await still_late(conn, list(tasks))
            owed = [tasks[task_id] for task_id in late_still if tasks[task_id].status in PARSE_PHASE]
            # A task in `downloaded` was not asked for yet, or failed and waits to be asked again: nothing was lost.
            unheard = [task for task in owed if task.status is not Status.DOWNLOADED]
            losses = await count_losses(conn, [task.task_id for task in unheard], phase="parse")
            await self._lose(conn, owed, losses, event="parse_asked", error=PARSE_LOST, back=Status.QUEUED_PARSE)
            asked = [task.task_id for task in owed if task.status is Status.QUEUED_PARSE]
            await renew_leases(conn, asked, lease=self.parse_lease)
            pages = await page_facts(conn, asked)
            await conclude(conn, owed)
        if pages:
            PARSES_ASKED.inc(len(pages))
            await asyncio.gather(
                *(self.bus.record(ParseRequested(page=PageFetched.FromString(page))) for page in pages)
            )
            log.info("parses_asked", count=len(pages))
        return len(owed)

    async def _lose(
        self, conn: Conn, tasks: Sequence[TaskRow], losses: dict[int, int], *, event: str, error: str, back: Status
    ) -> None:
        """Back to where it can be tried again; what loses everybody who takes it is given up, but for a robots.txt."""
        before = [task.status for task in tasks]
        for task in tasks:
            given_up = losses.get(task.task_id, 0) > MAX_LOSSES and task.kind != "robots"
            task.become(event, Status.FAILED if given_up else back)
            task.error = error if given_up else None
        await change_tasks(conn, list(zip(before, tasks, strict=True)), parse_lease=self.parse_lease, actor="scheduler")
