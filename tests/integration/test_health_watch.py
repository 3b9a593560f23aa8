"""Beats and errors over a real NATS into memory and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest

from limpet.contracts.events.v1.beat_pb2 import Beat, ErrorOccurred, ErrorType
from limpet.health.fleet import Fleet
from limpet.health.history import History
from limpet.health.store import errors, health_log
from limpet.health.store.errors import insert_errors
from limpet.health.watch import BEATS, Watch, error_row
from limpet.kit.beat import Pulse
from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.kit.streams import HEALTH_ERRORS
from tests.conftest import PoolFactory
from tests.support.waiting import until

STATEMENTS = {
    name: value
    for module in (errors, health_log)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}


@asynccontextmanager
async def running(part: Awaitable[None]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(part)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def pool(pool_of: PoolFactory) -> Pool:
    return await pool_of("limpet.health")


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(limit=100, forget_after_seconds=10)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
async def test_every_statement_of_the_health_store_prepares(pool: Pool, name: str) -> None:
    async with pool.acquire() as conn:
        await conn.prepare(STATEMENTS[name])


async def test_the_pulse_of_any_worker_is_heard(bus: Bus, pool: Pool, fleet: Fleet) -> None:
    await bus.subscribe(BEATS, Watch(pool, fleet).on_beat)
    pulse = Pulse(bus, service="fetcher", worker_id="fetcher-1", capacity=32)
    pulse.done(3)
    async with running(pulse.run()):

        async def heard() -> bool:
            return bool(fleet.workers())

        await until(heard)
    (worker,) = fleet.workers()
    assert (worker.worker_id, worker.service, worker.capacity, worker.done_total) == ("fetcher-1", "fetcher", 32, 3)


async def test_a_beat_that_is_no_beat_is_passed_over(pool: Pool, fleet: Fleet) -> None:
    await Watch(pool, fleet).on_beat(b"\xff\xff\xff")
    assert fleet.workers() == []


async def test_errors_of_workers_become_rows(bus: Bus, pool: Pool, fleet: Fleet) -> None:
    event = ErrorOccurred(
        worker_id="fetcher-1",
        service="fetcher",
        type=ErrorType.ERROR_TYPE_NETWORK,
        message="connection\x00 reset",
        url="http://shop.example/p/1",
        operation="fetch",
        retry_attempt=2,
        task_id=17,
    )
    event.error_time.GetCurrentTime()
    async with running(bus.consume(HEALTH_ERRORS, Watch(pool, fleet).on_error_occurred, slots=4)):
        await asyncio.gather(*(bus.record(event) for _ in range(250)))

        async def stored() -> bool:
            return bool(await pool.fetchval("SELECT count(*) = 250 FROM scraper_errors"))

        await until(stored)
    row = await pool.fetchrow("SELECT * FROM scraper_errors LIMIT 1")
    assert row is not None
    assert (row["scraper_id"], row["error_type"], row["operation"]) == ("fetcher-1", "network", "fetch")
    assert (row["retry_attempt"], row["task_id"], row["resolved"]) == (2, 17, False)
    assert row["error_message"] == "connection\ufffd reset"
    assert row["stack_trace"] is None


async def test_a_redelivered_batch_of_errors_is_written_once(pool: Pool) -> None:
    now = await pool.fetchval("SELECT now()")
    rows = [error_row(ErrorOccurred(worker_id="w", service="parser", message=str(n)), now=now) for n in range(3)]
    async with pool.acquire() as conn:
        assert await insert_errors(conn, rows, batch_id="one") == 3
        assert await insert_errors(conn, rows, batch_id="one") == 0
        assert await insert_errors(conn, rows, batch_id="two") == 3
    assert {row["error_type"] for row in await pool.fetch("SELECT error_type FROM scraper_errors")} == {"unknown"}


async def test_two_replicas_write_one_row_per_worker_and_moment(pool: Pool, fleet: Fleet) -> None:
    now = time.monotonic()
    for number in range(50):
        fleet.hear(Beat(worker_id=f"w{number}", service="fetcher", errors_in_a_row=number % 7), now=now)
    # A moment as long as this never ends within the test.
    first, second = (History(pool, fleet, every=timedelta(days=9000), kept=timedelta(days=20_000)) for _ in range(2))
    assert sum(await asyncio.gather(first.write(now=now), second.write(now=now))) == 50
    found = await pool.fetch("SELECT health_status, count(*) AS n FROM scraper_health_log GROUP BY 1")
    assert {row["health_status"]: row["n"] for row in found} == {"healthy": 22, "degraded": 21, "failing": 7}


async def test_rows_older_than_asked_are_deleted(pool: Pool, fleet: Fleet) -> None:
    await pool.execute(
        "INSERT INTO scraper_health_log (scraper_id, service, health_status, timestamp) "
        "VALUES ('w', 'fetcher', 'healthy', now() - interval '15 days'), ('w', 'fetcher', 'healthy', now())"
    )
    await History(pool, fleet, every=timedelta(minutes=1), kept=timedelta(days=14)).write(now=time.monotonic())
    assert await pool.fetchval("SELECT count(*) FROM scraper_health_log") == 1


async def test_an_error_is_resolved_only_with_a_time(pool: Pool) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await pool.execute(
            "INSERT INTO scraper_errors (scraper_id, service, error_type, batch_id, batch_index, resolved) "
            "VALUES ('w', 'fetcher', 'network', 'b', 1, true)"
        )
