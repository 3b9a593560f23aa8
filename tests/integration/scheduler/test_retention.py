"""What is old goes by age, months of history are made ahead, and one scheduler at a time does it."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest

from limpet.contracts.events.v1.parse_pb2 import PageParsed
from limpet.kit.pg import Pool
from limpet.scheduler.retention import Retention, month_after
from limpet.scheduler.store.link_parts import add_link_part
from limpet.scheduler.store.months import drop_months, make_month, take_turn
from limpet.scheduler.store.webhooks import Delivery, add_deliveries
from tests.support.scheduling import grant, make_domain, make_settle, page, submit_pages


def retention(pool: Pool, days: int = 180) -> Retention:
    return Retention(pool, keep={"attempts": timedelta(days=days), "audit": timedelta(days=days)})


async def tables(pool: Pool, parent: str) -> set[str]:
    rows = await pool.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::text::regclass", parent
    )
    return {row["name"] for row in rows}


def named(parent: str, month: date) -> str:
    return f"{parent}_{month:%Y_%m}"


def this_month() -> date:
    return datetime.now(UTC).date().replace(day=1)


@pytest.mark.parametrize(
    ("day", "ahead", "month"),
    [
        (date(2026, 1, 31), 0, date(2026, 1, 1)),
        (date(2026, 1, 31), 1, date(2026, 2, 1)),
        (date(2026, 11, 30), 2, date(2027, 1, 1)),
        (date(2026, 12, 31), 0, date(2026, 12, 1)),
    ],
)
def test_x4_months_are_counted_over_the_end_of_the_year(day: date, ahead: int, month: date) -> None:
    assert month_after(day, ahead) == month


@pytest.mark.parametrize("parent", ["attempts", "audit"])
async def test_x4_the_months_ahead_are_made_again_when_they_are_missing(pool: Pool, parent: str) -> None:
    wanted = {named(parent, month) for month in (month_after(this_month(), ahead) for ahead in range(3))}
    for name in wanted:
        await pool.execute(f"DROP TABLE {name}")
    await retention(pool).round()
    assert await tables(pool, parent) == wanted | {f"{parent}_other"}
    await retention(pool).round()
    assert await tables(pool, parent) == wanted | {f"{parent}_other"}, "twice makes nothing twice"


async def test_x4_a_row_of_this_month_lands_in_its_month_and_none_in_the_default_one(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    for parent, count in (("attempts", 2), ("audit", 3)):
        month = named(parent, this_month())
        assert await pool.fetchval(f"SELECT count(*) FROM {month}") == count
        assert await pool.fetchval(f"SELECT count(*) FROM {parent}_other") == 0


@pytest.mark.parametrize("parent", ["attempts", "audit"])
async def test_x4_months_that_are_wholly_too_old_are_dropped_and_no_others(pool: Pool, parent: str) -> None:
    async with pool.acquire() as conn:
        for month in (date(2020, 1, 1), date(2020, 2, 1), date(2020, 3, 1)):
            await make_month(conn, parent, month)
        assert await drop_months(conn, parent, before=date(2020, 2, 29)) == [f"{parent}_2020_01"]
        assert await drop_months(conn, parent, before=date(2020, 3, 1)) == [f"{parent}_2020_02"]
    await retention(pool).round()
    left = await tables(pool, parent)
    assert f"{parent}_2020_03" not in left
    assert {named(parent, this_month()), f"{parent}_other"} <= left


async def test_x4_each_table_is_kept_as_long_as_was_asked_for(pool: Pool) -> None:
    hundred_days_ago = this_month() - timedelta(days=100)
    async with pool.acquire() as conn:
        for parent in ("attempts", "audit"):
            await make_month(conn, parent, hundred_days_ago)
    await Retention(pool, keep={"attempts": timedelta(days=365), "audit": timedelta(days=30)}).round()
    assert named("attempts", hundred_days_ago) in await tables(pool, "attempts")
    assert named("audit", hundred_days_ago) not in await tables(pool, "audit")


async def test_x4_link_parts_go_when_their_task_has_ended(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 2)
    ended, running = await grant(pool)
    async with pool.acquire() as conn:
        for task_id in (ended.task_id, running.task_id, 999):
            await add_link_part(conn, task_id=task_id, attempt=1, part=0)
    await make_settle(pool).settle([PageParsed(page=page(ended))])
    await retention(pool).round()
    assert [row["task_id"] for row in await pool.fetch("SELECT task_id FROM link_parts")] == [running.task_id]


async def test_x4_old_deliveries_and_idempotency_keys_go_and_young_ones_stay(pool: Pool) -> None:
    deliveries = [Delivery(uuid4(), "https://a.test/", "https://a.test:443", name, "{}") for name in ("old", "young")]
    async with pool.acquire() as conn:
        await add_deliveries(conn, deliveries)
    await pool.execute("UPDATE webhook_deliveries SET state = 'delivered'")
    await pool.execute("UPDATE webhook_deliveries SET created_at = now() - interval '31 days' WHERE event = 'old'")
    for key, age in (("old", 25), ("young", 23)):
        await pool.execute(
            "INSERT INTO idempotency_keys (caller, route, key, body_hash, created_at)"
            " VALUES (sha256(''), '/', $1, sha256(''), now() - make_interval(hours => $2))",
            key,
            age,
        )
    await retention(pool).round()
    assert await pool.fetchval("SELECT array_agg(event) FROM webhook_deliveries") == ["young"]
    assert await pool.fetchval("SELECT array_agg(key) FROM idempotency_keys") == ["young"]


async def test_x4_one_scheduler_at_a_time_does_it_and_the_others_do_not_wait(pool: Pool) -> None:
    async with pool.acquire() as conn:
        await make_month(conn, "audit", date(2020, 1, 1))
    async with pool.acquire() as other, other.transaction():
        assert await take_turn(other)
        async with asyncio.timeout(5):
            await retention(pool).round()
        assert "audit_2020_01" in await tables(pool, "audit")
    await retention(pool).round()
    assert "audit_2020_01" not in await tables(pool, "audit")


async def test_x4_a_month_whose_rows_are_in_the_default_table_is_left_and_the_rest_goes_on(pool: Pool) -> None:
    month = this_month()
    for one in (month, month_after(month, 1)):
        await pool.execute(f"DROP TABLE {named('attempts', one)}")
    await pool.execute("INSERT INTO attempts (task_id, attempt, phase, outcome) VALUES (1, 1, 'fetch', 'fetched')")
    async with pool.acquire() as conn:
        await make_month(conn, "audit", date(2020, 1, 1))
    await retention(pool).round()
    assert named("attempts", month) not in await tables(pool, "attempts")
    assert named("attempts", month_after(month, 1)) in await tables(pool, "attempts")
    assert "audit_2020_01" not in await tables(pool, "audit")
    assert await pool.fetchval("SELECT count(*) FROM attempts") == 1
