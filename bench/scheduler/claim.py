"""What one round of 100 permits costs, by how many tasks are pending and how many domains they belong to."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from bench.scheduler.fill import add_domains, add_tasks
from bench.scheduler.server import Server, scheduler_pool
from limpet.kit.pg import Conn, Pool
from limpet.scheduler.grant import Habit, Terms, grant
from limpet.scheduler.politeness import TURN
from limpet.scheduler.robots import RobotsBook

TASKS = 100
WARM_UP = 5
ROUNDS = 40
# As the service has them, but for `per_domain`: a single domain may fill the round.
TERMS = Terms(
    lead=timedelta(seconds=0.4), per_domain=TASKS, domains=200, patience=timedelta(seconds=15),
    timeout=timedelta(seconds=30), margin=timedelta(seconds=5),
)  # fmt: skip
# What this connection has touched so far, found in the cache or not. Its own counting is off by a few, the same for all.
BUFFERS = """
    SELECT sum(coalesce(hits, 0) + coalesce(reads, 0)) FROM pg_stat_get_backend_io(pg_backend_pid()) WHERE object = 'relation'
"""


@dataclass(frozen=True)
class Cell:
    rows: int
    domains: int
    # The median and the shortest: other work on the machine lengthens the one, hardly the other.
    seconds: float
    least: float
    buffers: float


async def measure(server: Server, *, rows: Sequence[int], domains: Sequence[int], explain: bool) -> list[Cell]:
    """Each number of domains in a database of its own, which grows from one number of rows to the next."""
    cells: list[Cell] = []
    for count in domains:
        name = f"claim_{count}"
        dsn = await server.make_database(name)
        async with scheduler_pool(dsn) as pool:
            first = await add_domains(pool, count, at_once=TASKS)
            there = 0
            for wanted in rows:
                await add_tasks(pool, wanted - there, first_domain=first, domains=count)
                there = wanted
                cells.append(await _cell(pool, rows=wanted, domains=count))
                print(f"  {wanted:>9,} rows, {count:>7,} domains: {cells[-1].seconds * 1000:.2f} ms", flush=True)
                if explain:
                    await _explain(pool, habit=Habit(turn=max(1, min(TURN, wanted // count))))
        await server.drop_database(name)
    return cells


async def _cell(pool: Pool, *, rows: int, domains: int) -> Cell:
    times: list[float] = []
    book, habit = RobotsBook(), Habit()
    async with pool.acquire() as conn:
        before = 0.0
        for number in range(WARM_UP + ROUNDS):
            if number == WARM_UP:
                before = await _buffers(conn)
            async with rolled_back(conn):
                started = time.perf_counter()
                permits = await grant(conn, TERMS, window=TASKS, book=book, habit=habit)
                times.append(time.perf_counter() - started)
            assert len(permits) == TASKS, f"{len(permits)} permits in the round"
        touched = await _buffers(conn) - before
    times = times[WARM_UP:]
    return Cell(rows, domains, statistics.median(times), min(times), touched / ROUNDS)


async def _buffers(conn: Conn) -> float:
    await conn.execute("SELECT pg_stat_force_next_flush()")
    return float(await conn.fetchval(BUFFERS))


@asynccontextmanager
async def rolled_back(conn: Conn) -> AsyncIterator[None]:
    """The next round finds what this one found."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


class Explained:
    """A connection that prints the plan of each statement, undoes it, and then runs it."""

    def __init__(self, conn: Conn) -> None:
        self._conn = conn

    async def fetch(self, statement: str, *args: Any) -> Any:
        await self._print_plan(statement, *args)
        return await self._conn.fetch(statement, *args)

    async def fetchval(self, statement: str, *args: Any) -> Any:
        await self._print_plan(statement, *args)
        return await self._conn.fetchval(statement, *args)

    async def execute(self, statement: str, *args: Any) -> Any:
        await self._print_plan(statement, *args)
        return await self._conn.execute(statement, *args)

    async def _print_plan(self, statement: str, *args: Any) -> None:
        async with rolled_back(self._conn):
            rows = await self._conn.fetch(f"EXPLAIN (ANALYZE, BUFFERS) {statement}", *args)
        print(statement, *(f"    {row[0]}" for row in rows), sep="\n", flush=True)


async def _explain(pool: Pool, *, habit: Habit) -> None:
    async with pool.acquire() as conn, rolled_back(conn):
        await grant(cast("Conn", Explained(conn)), TERMS, window=TASKS, book=RobotsBook(), habit=habit)


def table(cells: Sequence[Cell]) -> str:
    lines = [
        f"One round of {TASKS} permits ({TURN} of a domain where others wait and it has them), {ROUNDS} times:",
        f"{'rows':>10} {'domains':>8} {'median ms':>10} {'times':>6} {'least ms':>9} {'times':>6} {'buffers':>8} {'times':>6}",
    ]
    first = [min(getattr(cell, name) for cell in cells) for name in ("seconds", "least", "buffers")]
    for cell in sorted(cells, key=lambda cell: (cell.rows, cell.domains)):
        lines.append(
            f"{cell.rows:>10,} {cell.domains:>8,}"
            f" {cell.seconds * 1000:>10.2f} {cell.seconds / first[0]:>6.2f}"
            f" {cell.least * 1000:>9.2f} {cell.least / first[1]:>6.2f}"
            f" {cell.buffers:>8,.0f} {cell.buffers / first[2]:>6.2f}"
        )
    return "\n".join(lines)
