"""How long 99 small domains take beside one with a million due tasks, and without it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from bench.scheduler.claim import TERMS
from bench.scheduler.fill import add_domains, add_tasks
from bench.scheduler.rates import make_settle
from bench.scheduler.server import Server, scheduler_pool
from limpet.contracts.events.v1.beat_pb2 import Beat
from limpet.contracts.events.v1.fetch_pb2 import FetchRequested
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import PageParsed
from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.scheduler.capacity import Capacity
from limpet.scheduler.dispatch import Dispatch
from limpet.scheduler.sampling import Sampler

SMALL, EACH = 99, 10
AT_ONCE = 5
FETCHERS, SLOTS = 2, 100
FETCH_SECONDS = 0.05
LINGER = 0.005
ROUND = replace(TERMS, per_domain=64)
LIMIT_SECONDS = 60.0


@dataclass(frozen=True)
class Race:
    big_at_once: int
    alone: float
    beside: float


class Fetchers:
    """They stand where the bus does: orders in, facts out a fixed time later, as many at once as they have slots."""

    def __init__(self) -> None:
        self.facts: list[PageParsed] = []
        self._slots = asyncio.Semaphore(FETCHERS * SLOTS)
        self._fetches: set[asyncio.Task[None]] = set()

    async def publish_together(self, orders: Sequence[FetchRequested], *, key: str, suffix: str) -> None:
        for order in orders:
            task = asyncio.create_task(self._fetch(order))
            self._fetches.add(task)
            task.add_done_callback(self._fetches.discard)

    async def _fetch(self, order: FetchRequested) -> None:
        async with self._slots:
            await asyncio.sleep(FETCH_SECONDS)
        page = PageFetched(
            task_id=order.task_id, attempt=order.attempt, domain=order.domain, url=order.url, http_status=200
        )
        self.facts.append(PageParsed(page=page))


async def measure(server: Server, *, crowd: int) -> list[Race]:
    races = []
    for big_at_once in (AT_ONCE, 1_000):
        times = {}
        for rows in (0, crowd):
            name = f"fairness_{big_at_once}_{rows}"
            dsn = await server.make_database(name)
            async with scheduler_pool(dsn) as pool:
                big = await add_domains(pool, 1, at_once=big_at_once)
                small = await add_domains(pool, SMALL, at_once=AT_ONCE)
                if rows:
                    await add_tasks(pool, rows, first_domain=big, domains=1)
                await add_tasks(pool, SMALL * EACH, first_domain=small, domains=SMALL)
                times[rows] = await _until_done(pool, apart=f"shop-{big}.example")
            await server.drop_database(name)
        races.append(Race(big_at_once, alone=times[0], beside=times[crowd]))
    return races


async def _until_done(pool: Pool, *, apart: str) -> float:
    """Seconds until every task of the small domains has been settled."""
    capacity = Capacity(floor=1)
    for number in range(FETCHERS):
        await capacity.on_beat(Beat(worker_id=f"fetcher-{number}", capacity=SLOTS).SerializeToString())
    fetchers = Fetchers()
    dispatch = Dispatch(
        pool, cast("Bus", fetchers), ROUND, tick=0.05, share=0.2, capacity=capacity, sampler=Sampler(0)
    )  # fmt: skip
    settle = make_settle(pool)
    settle.freed = dispatch.wake
    running = asyncio.create_task(dispatch.run())
    started, settled = time.perf_counter(), 0
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            while settled < SMALL * EACH:
                await asyncio.sleep(LINGER)
                facts, fetchers.facts = fetchers.facts, []
                await settle.settle(facts)
                dispatch.wake()
                settled += sum(fact.page.domain != apart for fact in facts)
        return time.perf_counter() - started
    finally:
        running.cancel()


def table(races: Sequence[Race], *, crowd: int) -> str:
    lines = [
        f"{SMALL} domains with {EACH} tasks, {AT_ONCE} at once each, beside one with {crowd:,} due tasks:",
        f"{'its limit':>10} {'alone s':>8} {'beside s':>9} {'times':>6}",
    ]
    for race in races:
        lines.append(f"{race.big_at_once:>10,} {race.alone:>8.2f} {race.beside:>9.2f} {race.beside / race.alone:>6.2f}")
    return "\n".join(lines)
