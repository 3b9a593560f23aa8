"""The loop that looks after runs: those that wait for nothing more end, ended ones are cleared, others hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg
import structlog

from limpet.contracts.events.v1.run_pb2 import RunEnded, RunResult
from limpet.kit.bus import Bus
from limpet.kit.clock import to_stamp
from limpet.kit.errors import Retryable
from limpet.kit.pg import COLLIDED, LOST, Pool, Record
from limpet.scheduler.metrics import RUNS
from limpet.scheduler.runs.clear import clear
from limpet.scheduler.runs.commit import finish_run
from limpet.scheduler.store.runs import mark_announced, over_runs, unannounced, uncleared

log = structlog.get_logger()
AT_ONCE = 100
RESULTS = {"committed": RunResult.RUN_RESULT_COMMITTED, "aborted": RunResult.RUN_RESULT_ABORTED}


@dataclass(frozen=True)
class Tend:
    pool: Pool
    bus: Bus
    every: float
    # There is work for dispatch.
    freed: Callable[[], None]
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """A run may be over."""
        self._news.set()

    async def run(self) -> None:
        """A part."""
        while True:
            self._news.clear()
            try:
                await self.round()
            except (*LOST, *COLLIDED, asyncpg.PostgresError, Retryable) as error:
                log.warning("tending_runs_failed", error=repr(error))
            try:
                await asyncio.wait_for(self._news.wait(), self.every)
            except TimeoutError:
                continue

    async def round(self) -> int:
        """How many runs ended, were cleared or announced."""
        async with self.pool.acquire() as conn:
            over = await over_runs(conn, limit=AT_ONCE)
        for run_id in over:
            await self._apart(run_id, self._finish(run_id))
        async with self.pool.acquire() as conn:
            ended = await uncleared(conn, limit=AT_ONCE)
        for run in ended:
            await self._apart(run["run_id"], clear(self.pool, run))
            self.freed()
        return len(over) + len(ended) + await self._announce()

    async def _finish(self, run_id: UUID) -> None:
        async with self.pool.acquire() as conn, conn.transaction():
            ending = await finish_run(conn, run_id)
        if ending is not None:
            RUNS.labels(ending).inc()
            log.info("run_ended", run_id=str(run_id), result=ending)

    async def _apart(self, run_id: UUID, work: Awaitable[None]) -> None:
        """What goes wrong with one run is tried again in the next round, and keeps no other waiting."""
        try:
            await work
        except (*LOST, *COLLIDED, asyncpg.PostgresError, Retryable) as error:
            log.warning("run_postponed", run_id=str(run_id), error=repr(error))

    async def _announce(self) -> int:
        """A crash between this and its commit repeats it, under the same message id."""
        async with self.pool.acquire() as conn, conn.transaction():
            ended = await unannounced(conn, limit=AT_ONCE)
            for run in ended:
                await self.bus.publish(event_of(run), key=f"run-ended:{run['run_id']}", suffix=str(run["domain_id"]))
            if ended:
                await mark_announced(conn, [run["run_id"] for run in ended])
        return len(ended)


def event_of(run: Record) -> RunEnded:
    return RunEnded(
        run_id=str(run["run_id"]),
        domain=run["domain"],
        result=RESULTS[run["state"]],
        gate=run["gate"] or "",
        reason=run["reason"] or "",
        url_count=run["urls"] or 0,
        new_task_count=run["new_tasks"] or 0,
        ended_time=to_stamp(run["ended_at"]),
    )
