"""S5 to S8: crawls come again, failures are tried again, blocks cool down, and the history keeps them all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from limpet.contracts.events.v1.page_pb2 import PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit.pg import Pool, Record
from limpet.scheduler.command import Command
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.retry import MAX_BLOCKS
from limpet.scheduler.store.batches import add_batch
from limpet.scheduler.store.permits import Permit
from limpet.scheduler.submit import submit
from tests.conftest import PoolFactory
from tests.support.scheduling import come_due, grant, make_domain, make_settle, page, status_of, submit_pages
from tests.support.task_states import ask, check_all_is_right, gone, lost, make_task, ripen

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
async def pool(pool_of: PoolFactory) -> Pool:
    pool = await pool_of("limpet.scheduler")
    await make_domain(pool, default_crawl_frequency=DAY)
    return pool


async def only(pool: Pool) -> Record:
    row = await pool.fetchrow("SELECT *, now() AS read_at FROM crawl_tasks")
    assert row is not None
    return row


async def next_crawl_comes(pool: Pool, *, late: timedelta = timedelta(0)) -> None:
    """The calendar has come to it, or so much past it."""
    await pool.execute(
        "UPDATE crawl_tasks SET next_crawl_at = now() - $1::interval WHERE next_crawl_at IS NOT NULL", late
    )
    await pool.execute(
        "UPDATE waiting_tasks w SET wake_at = t.next_crawl_at FROM crawl_tasks t WHERE t.task_id = w.task_id"
    )
    await ripen(pool)


def blocked(permit: Permit) -> PageRejected:
    return PageRejected(
        task_id=permit.task_id, attempt=permit.attempt, kind=RejectKind.REJECT_KIND_BLOCKED, reason="captcha"
    )


@pytest.mark.parametrize(("options", "frequency"), [({}, DAY), ({"crawl_frequency": HOUR}, HOUR)])
async def test_s6_a_completed_task_comes_again_after_its_own_frequency_or_that_of_its_domain(
    pool: Pool, options: dict[str, Any], frequency: timedelta
) -> None:
    await submit_pages(pool, 1, **options)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    row = await only(pool)
    assert row["next_crawl_at"] == row["completed_at"] + frequency
    await check_all_is_right(pool)
    await next_crawl_comes(pool)
    row = await only(pool)
    assert (row["status"], row["recrawl_count"], row["next_crawl_at"], row["crawl_base"]) == ("pending", 1, None, 1)
    (again,) = await grant(pool)
    assert again.attempt == 2
    await check_all_is_right(pool)


async def test_s6_a_failed_task_comes_again_after_twice_its_frequency(pool: Pool) -> None:
    await submit_pages(pool, 1, crawl_frequency=HOUR)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([gone(permit)])
    row = await only(pool)
    assert row["next_crawl_at"] == row["completed_at"] + 2 * HOUR
    await next_crawl_comes(pool)
    assert [permit.attempt for permit in await grant(pool)] == [2]


async def test_s6_a_task_that_does_not_recur_or_was_cancelled_does_not_come_again(pool: Pool) -> None:
    await submit_pages(pool, 1, is_recurring=False)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    await make_task(pool, Status.CANCELLED)
    assert await pool.fetchval("SELECT count(*) FROM waiting_tasks") == 0
    await check_all_is_right(pool)


async def test_s6_a_restarted_task_that_was_cancelled_recurs_again(pool: Pool) -> None:
    task_id = await make_task(pool, Status.CANCELLED)
    await ask(pool, Command.RESTART, task_id)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    row = await only(pool)
    assert row["next_crawl_at"] == row["completed_at"] + DAY
    assert row["recrawl_count"] == 0, "a person asked, not the calendar"
    await check_all_is_right(pool)


async def test_s6_a_missed_time_makes_one_crawl_within_minutes(pool: Pool) -> None:
    await submit_pages(pool, 1, crawl_frequency=HOUR)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    await next_crawl_comes(pool, late=10 * HOUR)
    for _ in range(3):
        await ripen(pool)
    row = await only(pool)
    assert (row["status"], row["recrawl_count"]) == ("pending", 1)
    assert timedelta(0) <= row["scheduled_at"] - row["updated_at"] <= timedelta(minutes=5)
    await check_all_is_right(pool)
    await come_due(pool)
    (again,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(again))])
    row = await only(pool)
    assert row["next_crawl_at"] == row["completed_at"] + HOUR
    await check_all_is_right(pool)


async def test_s6_a_crawl_that_comes_again_opens_its_batch_again(pool: Pool) -> None:
    async with pool.acquire() as conn:
        await add_batch(conn, name="spring", follow=False, recrawl=False, max_pages=None)
    await submit(pool, [{"url": "http://shop.test/"}], batch="spring")
    (permit,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    await check_all_is_right(pool)
    await next_crawl_comes(pool)
    assert await pool.fetchval("SELECT open_tasks FROM batches") == 1
    await check_all_is_right(pool)


async def test_s7_network_errors_are_tried_again_after_1_2_and_4_minutes_then_given_up(pool: Pool) -> None:
    await submit_pages(pool, 1, max_retries=3)
    settle = make_settle(pool)
    for minutes in (1, 2, 4):
        (permit,) = await grant(pool)
        await settle.settle([lost(permit)])
        row = await only(pool)
        assert (row["status"], row["note"], row["error_message"]) == ("pending", "retry", "reset")
        wait = row["scheduled_at"] - row["updated_at"]
        assert timedelta(minutes=0.75 * minutes) <= wait <= timedelta(minutes=1.25 * minutes)
        await check_all_is_right(pool)
        assert await grant(pool) == []
        await come_due(pool)
    (permit,) = await grant(pool)
    await settle.settle([lost(permit)])
    row = await only(pool)
    assert (row["status"], row["error_message"], row["fetch_errors"]) == ("failed", "reset", 4)
    await check_all_is_right(pool)


async def test_s7_parse_failures_count_in_their_own_phase(pool: Pool) -> None:
    await submit_pages(pool, 1, max_retries=1)
    settle = make_settle(pool)
    (first,) = await grant(pool)
    await settle.settle([lost(first)])
    await come_due(pool)
    (permit,) = await grant(pool)
    await settle.settle([page(permit), ParseFailed(page=page(permit), error="no title", retryable=True)])
    row = await only(pool)
    assert (row["status"], row["fetch_errors"], row["parse_errors"]) == ("downloaded", 1, 1)
    await check_all_is_right(pool)
    await pool.execute("UPDATE crawl_tasks SET status = 'queued_parse'")
    await settle.settle([ParseFailed(page=page(permit), error="no title", retryable=True)])
    row = await only(pool)
    assert (row["status"], row["parse_errors"], row["error_message"]) == ("failed", 2, "no title")


async def test_s8_a_block_cools_down_without_using_up_retries_and_has_a_ceiling_of_its_own(pool: Pool) -> None:
    await submit_pages(pool, 1, max_retries=0)
    settle = make_settle(pool)
    for count in range(1, MAX_BLOCKS + 1):
        (permit,) = await grant(pool)
        await settle.settle([blocked(permit)])
        row = await only(pool)
        assert (row["status"], row["note"], row["blocks"], row["fetch_errors"]) == (
            "pending", "cooling_down", count, 0,
        )  # fmt: skip
        wait = (row["scheduled_at"] - row["updated_at"]).total_seconds()
        assert 0.75 * min(30 * 2 ** (count - 1), 240) <= wait <= min(1.25 * 30 * 2 ** (count - 1), 300)
        await check_all_is_right(pool)
        # The domain's breaker has its own tests: here it has calmed down.
        await pool.execute(
            "UPDATE domains SET breaker_state = 'closed', breaker_in_a_row = 0, breaker_bad = 0, breaker_proxies = '',"
            " held_until = '-infinity'"
        )
        await come_due(pool)
    (permit,) = await grant(pool)
    await settle.settle([blocked(permit)])
    row = await only(pool)
    assert (row["status"], row["note"], row["error_message"]) == ("failed", None, "captcha")
    await check_all_is_right(pool)


async def test_s5_every_attempt_of_every_crawl_is_a_row_of_history(pool: Pool) -> None:
    await submit_pages(pool, 1)
    settle = make_settle(pool)
    (first,) = await grant(pool)
    await settle.settle([lost(first)])
    await come_due(pool)
    (second,) = await grant(pool)
    await settle.settle([PageParsed(page=page(second))])
    await ask(pool, Command.RESTART, first.task_id)
    (third,) = await grant(pool)
    await settle.settle([gone(third)])
    rows = await pool.fetch("SELECT attempt, phase, outcome FROM attempts ORDER BY attempt, phase")
    assert [tuple(row) for row in rows] == [
        (1, "fetch", "network"), (2, "fetch", "fetched"), (2, "parse", "parsed"), (3, "fetch", "client_error"),
    ]  # fmt: skip
    assert await status_of(pool, first.task_id) == "failed"
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks") == 1
