"""How many permits a second are granted and settled, by one and by two processes, and what CPU that takes."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.connection import Connection
from random import Random

import uvloop

from bench.scheduler.claim import TERMS
from bench.scheduler.fill import add_domains, add_tasks
from bench.scheduler.server import Server, scheduler_pool
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.events.v1.parse_pb2 import PageParsed
from limpet.kit.clock import to_stamp
from limpet.kit.errors import Permanent
from limpet.kit.pg import Pool
from limpet.scheduler.discover import Discover
from limpet.scheduler.grant import Habit, grant
from limpet.scheduler.retry import RetryPolicy
from limpet.scheduler.robots import RobotsBook
from limpet.scheduler.settle import AT_ONCE, Settle
from limpet.scheduler.store.permits import Permit

DOMAINS = 1_000
# Rounds of at most 1,000 permits: 5 tasks of 200 domains each.
ROUND = replace(TERMS, per_domain=5)
# Orders that are out when granting stops and settling begins: those of 50 fetchers.
WINDOW = 10_000
# Facts that the service gathers under load: up to 16 messages of a parser.
BATCH = 400


@dataclass(frozen=True)
class Rate:
    what: str
    processes: int
    tasks: int
    seconds: float
    python_cpu: float
    postgres_cpu: float


class NoBodies:
    async def get_many(self, keys: Sequence[str]) -> Sequence[bytes | Permanent]:
        raise AssertionError("no robots.txt is settled here")


def make_settle(pool: Pool) -> Settle:
    policy = RetryPolicy(retry_base=60, block_base=30)
    return Settle(pool, NoBodies(), Discover(pool), policy, timedelta(seconds=60), freed=lambda: None, rng=Random(1))


def parsed(permit: Permit) -> PageParsed:
    """What a parser says of the page that a permit was for."""
    key = f"{permit.trace_id.hex[:2]}/{permit.trace_id.hex}"
    page = PageFetched(
        task_id=permit.task_id, attempt=permit.attempt, domain=permit.domain, url=permit.url, parser=permit.parser,
        body_key=key, content_type="text/html", charset="utf-8", http_status=200, response_ms=183, size_bytes=43_000,
        started_time=to_stamp(permit.slot_at), traceparent=f"00-{permit.trace_id.hex}-00f067aa0ba902b7-00",
    )  # fmt: skip
    return PageParsed(page=page, started_time=to_stamp(permit.slot_at), duration_ms=4)


async def measure(server: Server, *, tasks: int) -> list[Rate]:
    rates: list[Rate] = []
    dsn = await server.make_database("rates")
    for processes in (1, 2):
        async with scheduler_pool(dsn) as pool:
            first = await add_domains(pool, DOMAINS, at_once=10_000)
            await add_tasks(pool, 2 * tasks, first_domain=first, domains=DOMAINS)
        rates += _drive(dsn, server, processes=processes, tasks=tasks)
        async with scheduler_pool(dsn) as pool:
            await pool.execute("UPDATE domains SET is_active = false")
    await server.drop_database("rates")
    return rates


def _drive(dsn: str, server: Server, *, processes: int, tasks: int) -> list[Rate]:
    """Fill the window, empty it, and again: each half is timed by itself."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(processes)]
    workers = [context.Process(target=_work, args=(dsn, theirs), daemon=True) for _, theirs in pipes]
    for worker in workers:
        worker.start()
    ours = [pipe for pipe, _ in pipes]
    totals = {what: Rate(what, processes, 0, 0.0, 0.0, 0.0) for what in ("granted", "settled")}
    _ask(ours, "granted")
    _ask(ours, "settled")
    while totals["settled"].tasks < tasks:
        for what, total in totals.items():
            cpu, started = server.cpu_seconds(), time.perf_counter()
            answers = _ask(ours, what)
            totals[what] = replace(
                total,
                tasks=total.tasks + sum(count for count, _ in answers),
                seconds=total.seconds + time.perf_counter() - started,
                python_cpu=total.python_cpu + sum(used for _, used in answers),
                postgres_cpu=total.postgres_cpu + server.cpu_seconds() - cpu,
            )
    for pipe in ours:
        pipe.send("stop")
    for worker in workers:
        worker.join()
    return list(totals.values())


def _ask(pipes: Sequence[Connection], what: str) -> list[tuple[int, float]]:
    for pipe in pipes:
        pipe.send(what)
    return [pipe.recv() for pipe in pipes]


def _work(dsn: str, pipe: Connection) -> None:
    # As a service does.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    uvloop.run(_obey(dsn, pipe))


async def _obey(dsn: str, pipe: Connection) -> None:
    async with scheduler_pool(dsn, size=2) as pool:
        settle = make_settle(pool)
        book = RobotsBook()
        facts: list[bytes] = []
        while (what := pipe.recv()) != "stop":
            started = time.process_time()
            if what == "granted":
                permits = await _grant_all(pool, book)
                count, used = len(permits), time.process_time() - started
                facts = [parsed(permit).SerializeToString() for permit in permits]
            else:
                batches = iter([facts[at : at + BATCH] for at in range(0, len(facts), BATCH)])
                await asyncio.gather(*(_settle_all(settle, batches) for _ in range(AT_ONCE)))
                count, used = len(facts), time.process_time() - started
            pipe.send((count, used))


async def _settle_all(settle: Settle, batches: Iterator[list[bytes]]) -> None:
    for batch in batches:
        await settle.settle([PageParsed.FromString(fact) for fact in batch])


async def _grant_all(pool: Pool, book: RobotsBook) -> list[Permit]:
    permits: list[Permit] = []
    habit = Habit()
    while True:
        async with pool.acquire() as conn, conn.transaction():
            some = await grant(conn, ROUND, window=WINDOW, book=book, habit=habit)
        if not some:
            return permits
        permits += some


def table(rates: Sequence[Rate]) -> str:
    lines = [
        f"Rounds of up to 1,000 permits, {BATCH} facts settled together, {AT_ONCE} such at once in a process:",
        f"{'':>10} {'processes':>10} {'tasks/s':>8} {'Python':>10} {'PostgreSQL':>11}   CPU-µs per task",
    ]
    for rate in rates:
        python, postgres = (1e6 * used / rate.tasks for used in (rate.python_cpu, rate.postgres_cpu))
        lines.append(
            f"{rate.what:>10} {rate.processes:>10} {rate.tasks / rate.seconds:>8,.0f} {python:>10.1f} {postgres:>11.1f}"
        )
    return "\n".join(lines)
