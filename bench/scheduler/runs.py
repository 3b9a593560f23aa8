"""A run of very many URLs: collected page by page, committed in one transaction, and then all of it once more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar
from uuid import UUID, uuid4

from bench.scheduler.claim import TERMS
from bench.scheduler.fill import add_domains
from bench.scheduler.rates import NoBodies
from bench.scheduler.server import Server, scheduler_pool
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import Link, LinkKind, LinkRel, PageParsed
from limpet.kit.clock import to_stamp
from limpet.kit.pg import Pool, Record
from limpet.scheduler.again import try_again
from limpet.scheduler.canonical import canonical
from limpet.scheduler.discover import Discover
from limpet.scheduler.grant import Habit, grant
from limpet.scheduler.retry import RetryPolicy
from limpet.scheduler.robots import RobotsBook
from limpet.scheduler.runs.clear import clear
from limpet.scheduler.runs.commit import finish_run
from limpet.scheduler.runs.start import Wish, start_run
from limpet.scheduler.settle import Settle
from limpet.scheduler.store.permits import Permit
from limpet.scheduler.store.runs import uncleared
from limpet.scheduler.submit import submit

START_PAGES = 12
PER_PAGE = 100
# So many permits a round that they are those of the list pages, which come first.
ROUND = replace(TERMS, per_domain=START_PAGES)
T = TypeVar("T")
OPTIONS: dict[str, Any] = {
    "on_failed_start_page": "abort", "quorum": 0.5, "allow_empty": False, "least_share": None, "item_pattern": None,
    "parser_name": None, "list_parser_name": None, "priority": 5, "max_retries": 3, "max_list_pages": 100_000, "recrawl": False, "webhook_url": None,
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    what: str
    count: int
    seconds: float
    postgres_cpu: float


@dataclass(frozen=True)
class Measured:
    steps: list[Step]
    # The longest that a permit of another site took from grant to settled while the commit ran, and how many there were.
    others: list[float]


async def measure(server: Server, *, urls: int) -> Measured:
    dsn = await server.make_database("runs")
    async with scheduler_pool(dsn, size=8) as pool:
        first = await add_domains(pool, 2, at_once=START_PAGES)
        rows = await pool.fetch("SELECT name FROM domains WHERE domain_id >= $1 ORDER BY domain_id", first)
        site, other = (row["name"] for row in rows[:2])
        steps: list[Step] = []

        async def timed(what: str, work: Coroutine[Any, Any, T], count: Callable[[T], int]) -> T:
            cpu, started = server.cpu_seconds(), time.perf_counter()
            result = await work
            seconds = time.perf_counter() - started
            steps.append(Step(what, count(result), seconds, server.cpu_seconds() - cpu))
            print(f"  {what}: {steps[-1].count:,} in {seconds:.1f} s", flush=True)
            return result

        run_id = uuid4()
        await begin(pool, run_id, site=site)
        await timed("collected by list pages", collect(pool, site, urls=urls), lambda n: n)
        await submit(pool, [{"url": f"http://{other}/p/{n}"} for n in range(2000)], batch=None)
        stop = asyncio.Event()
        others = asyncio.create_task(keep_crawling(pool, stop))
        await timed("committed in one transaction", commit(pool, run_id), lambda n: n)
        stop.set()
        waits = await others
        await timed("cleared afterwards", sweep(pool), lambda n: n)
        before = await tasks(pool)
        await begin(pool, run_id, site=site)
        await timed("the same run posted again, new tasks", commit(pool, run_id), lambda _: 0)
        assert await tasks(pool) == before, "the same run twice created something"
        again = uuid4()
        await begin(pool, again, site=site)
        await collect(pool, site, urls=urls)
        await timed("a second run of the same URLs, new tasks", commit(pool, again), lambda n: n)
        assert await tasks(pool) == before, "the same URLs twice created something"
    await server.drop_database("runs")
    return Measured(steps, waits)


async def begin(pool: Pool, run_id: UUID, *, site: str) -> None:
    pages = [canonical(f"http://{site}/list/{number}/0") for number in range(START_PAGES)]
    await try_again(pool, lambda conn: start_run(conn, Wish(run_id, site, pages, OPTIONS, "bench")))


async def collect(pool: Pool, site: str, *, urls: int) -> int:
    """Every list page names the next one, as sites do: each fact is settled by the flow of the service."""
    each = -(-urls // START_PAGES)
    settle = make_settle(pool)
    listing = True
    while listing:
        permits = await take(pool)
        listing = any(permit.kind == "list" for permit in permits)
        await settle.settle([list_page(permit, site=site, each=each) for permit in permits])
    return int(await pool.fetchval("SELECT count(*) FROM run_urls"))


def list_page(permit: Permit, *, site: str, each: int) -> PageParsed:
    if permit.kind != "list":
        return PageParsed(page=fetched(permit))
    start, number = (int(part) for part in permit.url.rsplit("/", 2)[1:])
    first, last = number * PER_PAGE, min(each, (number + 1) * PER_PAGE)
    links = [Link(url=f"http://{site}/p/{start}-{n}", kind=LinkKind.LINK_KIND_ITEM) for n in range(first, last)]
    if last < each:
        links.append(Link(url=f"http://{site}/list/{start}/{number + 1}", rel=LinkRel.LINK_REL_NEXT))
    return PageParsed(page=fetched(permit), links=links)


async def take(pool: Pool) -> list[Permit]:
    async with pool.acquire() as conn, conn.transaction():
        return await grant(conn, ROUND, window=10_000, book=RobotsBook(), habit=Habit())


def fetched(permit: Permit) -> PageFetched:
    return PageFetched(
        task_id=permit.task_id,
        attempt=permit.attempt,
        url=permit.url,
        http_status=200,
        started_time=to_stamp(datetime.now(UTC)),
    )


async def keep_crawling(pool: Pool, stop: asyncio.Event) -> list[float]:
    """Another site is crawled meanwhile."""
    settle = make_settle(pool)
    waits: list[float] = []
    while not stop.is_set():
        started = time.perf_counter()
        permits = await take(pool)
        await settle.settle([PageParsed(page=fetched(permit)) for permit in permits])
        waits.append(time.perf_counter() - started)
        await asyncio.sleep(0.02)
    return waits


async def commit(pool: Pool, run_id: UUID) -> int:
    async with pool.acquire() as conn, conn.transaction():
        await finish_run(conn, run_id)
    return int(await pool.fetchval("SELECT new_tasks FROM runs WHERE run_id = $1", run_id))


async def sweep(pool: Pool) -> int:
    there = int(await pool.fetchval("SELECT count(*) FROM run_urls"))
    runs: list[Record] = await try_again(pool, lambda conn: uncleared(conn, limit=10))
    for run in runs:
        await clear(pool, run)
    return there - int(await pool.fetchval("SELECT count(*) FROM run_urls"))


async def tasks(pool: Pool) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM crawl_tasks WHERE kind = 'page'"))


def make_settle(pool: Pool) -> Settle:
    policy, lease = RetryPolicy(retry_base=60, block_base=30), timedelta(seconds=60)
    return Settle(pool, NoBodies(), Discover(pool), policy, lease, freed=lambda: None, rng=Random(1))


def table(measured: Measured) -> str:
    lines = [f"{'a run':<44} {'URLs':>10} {'seconds':>9} {'a second':>10} {'PostgreSQL CPU s':>17}"]
    for step in measured.steps:
        rate = step.count / step.seconds if step.seconds else 0.0
        lines.append(
            f"{step.what:<44} {step.count:>10,} {step.seconds:>9.1f} {rate:>10,.0f} {step.postgres_cpu:>17.1f}"
        )
    waits = sorted(measured.others)
    lines.append(
        f"Meanwhile on another site: {len(waits)} rounds of grant and settle, "
        f"median {waits[len(waits) // 2] * 1000:.0f} ms, longest {waits[-1] * 1000:.0f} ms."
    )
    return "\n".join(lines)
