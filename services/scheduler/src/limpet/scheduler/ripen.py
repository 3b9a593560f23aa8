"""What has come due in the calendar: waiting tasks enter the queue, ended ones start their next crawl, children follow parents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import asyncpg
import structlog

from limpet.kit.pg import COLLIDED, LOST, Conn, Pool
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.metrics import TASKS_RIPENED
from limpet.scheduler.recurrence import due_again
from limpet.scheduler.release import release_children
from limpet.scheduler.store.batches import reopen_batches
from limpet.scheduler.store.domains import lock_domain_ids, wake_domains
from limpet.scheduler.store.queues import peek_ripe, queue, take_ripe
from limpet.scheduler.store.tasks import lock_free_tasks, read_clock, recrawl_tasks

log = structlog.get_logger()
BATCH = 1000


@dataclass(frozen=True)
class Ripen:
    pool: Pool
    every: float
    freed: Callable[[], None]
    parse_lease: timedelta
    rng: Random = field(default_factory=Random)

    async def run(self) -> None:
        """A part."""
        while True:
            ripened = 0
            try:
                ripened = await self.round()
                if ripened:
                    self.freed()
            except (*LOST, *COLLIDED, asyncpg.PostgresError) as error:
                log.warning("ripen_failed", error=repr(error))
            if ripened < BATCH:
                await asyncio.sleep(self.every)

    async def round(self) -> int:
        async with self.pool.acquire() as conn, conn.transaction():
            ripened = await self._ripen(conn)
        async with self.pool.acquire() as conn, conn.transaction():
            released = await release_children(conn, limit=BATCH, parse_lease=self.parse_lease)
        TASKS_RIPENED.inc(ripened + released)
        return ripened + released

    async def _ripen(self, conn: Conn) -> int:
        ripe = dict(await peek_ripe(conn, limit=BATCH))
        if not ripe:
            return 0
        tasks = await lock_free_tasks(conn, list(ripe))
        taken = await take_ripe(conn, [(task_id, ripe[task_id]) for task_id in tasks])
        due = [task_id for task_id, _ in taken if tasks[task_id].status is Status.PENDING]
        ended = [(task_id, wake_at) for task_id, wake_at in taken if tasks[task_id].next_crawl_at == wake_at]
        await lock_domain_ids(conn, sorted({tasks[task_id].domain_id for task_id, _ in taken}))
        await queue(conn, due)
        started = await self._start_again(conn, ended)
        wakes = [(tasks[one].domain_id, tasks[one].group_key, tasks[one].priority) for one in due]
        wakes += [(row["domain_id"], row["group_key"], row["priority"]) for row in started if row["is_due"]]
        await wake_domains(conn, wakes)
        return len(taken)

    async def _start_again(self, conn: Conn, ended: list[tuple[int, datetime]]) -> list[asyncpg.Record]:
        """A missed time makes one crawl, and many that were missed together do not all come at once."""
        if not ended:
            return []
        now = await read_clock(conn)
        wanted = [(task_id, due_again(wake_at, now=now, rng=self.rng), None) for task_id, wake_at in ended]
        rows = await recrawl_tasks(conn, wanted, event="recrawled", actor="calendar")
        await reopen_batches(conn, [row["batch_id"] for row in rows if row["batch_id"] is not None])
        return rows
