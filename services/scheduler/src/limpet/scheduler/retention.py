"""What is old goes, and months of history are made ahead: every hour, by one scheduler at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from functools import partial

import asyncpg
import structlog

from limpet.kit.pg import COLLIDED, LOST, Conn, Pool
from limpet.scheduler.store.idempotency import prune_keys
from limpet.scheduler.store.link_parts import prune_link_parts
from limpet.scheduler.store.months import drop_months, make_month, take_turn
from limpet.scheduler.store.run_pages import drop_pages
from limpet.scheduler.store.run_urls import prune_urls
from limpet.scheduler.store.runs import drop_runs, old_runs
from limpet.scheduler.store.tasks import read_clock
from limpet.scheduler.store.webhooks import prune_deliveries

log = structlog.get_logger()
MONTHS_AHEAD = 2
DELIVERIES_KEPT = timedelta(days=30)
# For people to see what was wrong with it.
ABORTED_URLS_KEPT = timedelta(days=7)
RUNS_AT_ONCE = 100
BATCH = 5000
EVERY = 3600.0


def month_after(day: date, ahead: int) -> date:
    """The first day of the month that comes so many after that of this day."""
    years, month = divmod(day.month - 1 + ahead, 12)
    return date(day.year + years, month + 1, 1)


@dataclass(frozen=True)
class Retention:
    pool: Pool
    # How long history is kept, by table.
    keep: dict[str, timedelta]
    runs_kept: timedelta = timedelta(days=90)

    async def run(self) -> None:
        """A part."""
        while True:
            await self.round()
            await asyncio.sleep(EVERY)

    async def round(self) -> None:
        """Each step by itself: what one cannot do now, the others do all the same."""
        for table, kept in self.keep.items():
            for ahead in range(MONTHS_AHEAD + 1):
                await self._step("month_made", partial(_make_month, table=table, ahead=ahead))
            await self._step("months_dropped", partial(_drop_old, table=table, kept=kept))
        await self._step("link_parts_pruned", lambda conn: prune_link_parts(conn, limit=BATCH))
        await self._step(
            "deliveries_pruned", lambda conn: prune_deliveries(conn, older_than=DELIVERIES_KEPT, limit=BATCH)
        )
        await self._step("idempotency_keys_pruned", prune_keys)
        await self._step("run_urls_pruned", lambda conn: prune_urls(conn, kept=ABORTED_URLS_KEPT, limit=BATCH))
        await self._step("runs_dropped", partial(_drop_runs, kept=self.runs_kept))

    async def _step(self, event: str, act: Callable[[Conn], Awaitable[int]]) -> None:
        done = BATCH
        try:
            # Short transactions: nobody waits long for what is pruned.
            while done >= BATCH:
                async with self.pool.acquire() as conn, conn.transaction():
                    done = await act(conn) if await take_turn(conn) else 0
                if done:
                    log.info(event, count=done)
        except (*LOST, *COLLIDED, asyncpg.PostgresError) as error:
            log.warning("retention_failed", step=event, error=repr(error))


async def _make_month(conn: Conn, *, table: str, ahead: int) -> int:
    today = (await read_clock(conn)).astimezone(UTC).date()
    return int(await make_month(conn, table, month_after(today, ahead)))


async def _drop_old(conn: Conn, *, table: str, kept: timedelta) -> int:
    before = await read_clock(conn) - kept
    return len(await drop_months(conn, table, before=before.astimezone(UTC).date()))


async def _drop_runs(conn: Conn, *, kept: timedelta) -> int:
    """Long transactions make others wait: the tasks of their list pages go first, a few at a time."""
    runs = await old_runs(conn, kept=kept, limit=RUNS_AT_ONCE)
    if not runs:
        return 0
    if await drop_pages(conn, runs, limit=BATCH):
        return BATCH
    await drop_runs(conn, runs)
    return BATCH if len(runs) == RUNS_AT_ONCE else len(runs)
