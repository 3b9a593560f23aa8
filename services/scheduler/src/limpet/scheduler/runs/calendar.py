"""Runs that begin by themselves, at the times of their schedules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import asyncpg
import structlog

from limpet.kit.pg import COLLIDED, LOST, Conn, Pool
from limpet.scheduler.canonical import canonical
from limpet.scheduler.runs.cron import next_time
from limpet.scheduler.runs.start import Started, Wish, start_run
from limpet.scheduler.store.run_schedules import due_schedule, schedule_ran
from limpet.scheduler.webhook_event import ordered_id

log = structlog.get_logger()


@dataclass(frozen=True)
class Calendar:
    pool: Pool
    every: float
    # There is work for dispatch.
    freed: Callable[[], None]
    rng: Random = field(default_factory=Random)

    async def run(self) -> None:
        """A part."""
        while True:
            try:
                while await self.round():
                    self.freed()
            except (*LOST, *COLLIDED, asyncpg.PostgresError) as error:
                log.warning("scheduled_run_failed", error=repr(error))
            await asyncio.sleep(self.every)

    async def round(self) -> Started | None:
        """Begin the run that is longest overdue. Where one of its site is live, that is the run."""
        async with self.pool.acquire() as conn, conn.transaction():
            return await self._begin(conn)

    async def _begin(self, conn: Conn) -> Started | None:
        row = await due_schedule(conn)
        if row is None:
            return None
        wish = json.loads(row["wish"])
        pages = [canonical(url) for url in wish.pop("start_pages")]
        started = await start_run(
            conn,
            Wish(
                run_id=ordered_id(row["now"], rng=self.rng),
                site=row["site"],
                start_pages=pages,
                options=wish,
                created_by=f"schedule:{row['name']}",
                schedule_id=row["schedule_id"],
            ),
        )
        again = next_time(row["cron"], zone_name=row["zone"], after=row["now"])
        await schedule_ran(conn, row["schedule_id"], next_run_at=again, run_id=started.run_id)
        log.info("scheduled_run", schedule=row["name"], run_id=str(started.run_id), created=started.created)
        return started
