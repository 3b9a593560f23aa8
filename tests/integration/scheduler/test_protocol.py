"""The protocol that loses nothing, step by step on a real database."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import Link, PageParsed, ParseFailed
from limpet.kit.errors import Retryable
from limpet.kit.pg import Pool
from limpet.scheduler.politeness import slot_tolerance
from limpet.scheduler.reclaim import Reclaim
from limpet.scheduler.store.batches import add_batch
from limpet.scheduler.submit import submit
from tests.support.scheduling import come_due, grant, in_flight, make_domain, make_settle, page, status_of, submit_pages


async def test_a_page_goes_from_submit_to_completed(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    settle = make_settle(pool)
    assert await status_of(pool, permit.task_id) == "queued"
    await settle.settle([page(permit)])
    assert await status_of(pool, permit.task_id) == "queued_parse"
    assert await in_flight(pool) == (0, 0)
    await settle.settle([PageParsed(page=page(permit))])
    assert await status_of(pool, permit.task_id) == "completed"
    assert await pool.fetchval("SELECT count(*) FROM attempts") == 2


async def test_a_parsed_page_completes_even_when_the_fetch_was_never_heard_of(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    settle = make_settle(pool)
    await settle.settle([PageParsed(page=page(permit))])
    assert await status_of(pool, permit.task_id) == "completed"
    assert await in_flight(pool) == (0, 0)
    await settle.settle([page(permit)])
    assert await status_of(pool, permit.task_id) == "completed"


async def test_repeated_and_late_facts_change_nothing(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (first,) = await grant(pool)
    settle = make_settle(pool)
    failed = FetchFailed(
        task_id=first.task_id, attempt=first.attempt, kind=FailureKind.FAILURE_KIND_NETWORK, error="reset"
    )
    await settle.settle([failed, failed])
    await settle.settle([failed])
    row = await pool.fetchrow("SELECT fetch_errors, status::text, scheduled_at - now() AS wait FROM crawl_tasks")
    assert row is not None
    assert row["fetch_errors"] == 1
    assert timedelta(seconds=40) < row["wait"] < timedelta(seconds=80)
    assert await in_flight(pool) == (0, 0)
    await come_due(pool)
    (second,) = await grant(pool)
    assert second.attempt == first.attempt + 1
    await settle.settle([failed])
    assert await status_of(pool, first.task_id) == "queued"
    assert await in_flight(pool) == (1, 1)


async def test_a_good_page_of_an_expired_attempt_still_counts_and_its_successor_keeps_its_permit(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (first,) = await grant(pool, lease=0.0)
    reclaim = Reclaim(pool, bus=None, parse_lease=timedelta(seconds=60), every=1, freed=lambda: None)  # type: ignore[arg-type]
    await pool.execute("UPDATE permits SET lease_until = now() - interval '1 second'")
    assert await reclaim.expire_permits() == 1
    assert await status_of(pool, first.task_id) == "pending"
    assert await in_flight(pool) == (0, 0)
    (second,) = await grant(pool)
    settle = make_settle(pool)
    await settle.settle([page(first)])
    assert await status_of(pool, first.task_id) == "queued_parse"
    assert await in_flight(pool) == (1, 1)
    await settle.settle([page(second)])
    assert await in_flight(pool) == (0, 0)


async def test_slots_are_apart_by_delay_and_tolerance(pool: Pool) -> None:
    await make_domain(pool, crawl_delay_seconds=0.2)
    await submit_pages(pool, 20)
    permits = await grant(pool, lead=2.0) + await grant(pool, lead=4.0)
    slots = [permit.slot_at for permit in permits]
    gaps = [(late - early).total_seconds() for early, late in pairwise(slots)]
    assert len(slots) > 15
    assert min(gaps) >= 0.2 + slot_tolerance(0.2) - 1e-6
    assert all((permit.start_by - permit.slot_at).total_seconds() <= slot_tolerance(0.2) + 1e-6 for permit in permits)


async def test_many_schedulers_never_pass_the_limits(pool: Pool) -> None:
    await make_domain(pool, max_concurrent_requests=7)
    await submit_pages(pool, 40)
    rounds = await asyncio.gather(*(grant(pool) for _ in range(12)))
    permits = [permit for permits in rounds for permit in permits]
    assert len(permits) == 7
    assert len({permit.task_id for permit in permits}) == 7
    assert await in_flight(pool) == (7, 7)


async def test_a_group_never_passes_its_limit_and_does_not_hold_up_the_others(pool: Pool) -> None:
    await make_domain(pool, max_per_group=2)
    await submit(pool, [{"url": f"http://shop.test/a/{n}", "group_key": "a"} for n in range(10)], batch=None)
    await submit(pool, [{"url": f"http://shop.test/b/{n}", "group_key": "b"} for n in range(10)], batch=None)
    permits = [*await grant(pool), *await grant(pool)]
    groups = sorted(permit.url.split("/")[3] for permit in permits)
    assert groups == ["a", "a", "b", "b"]
    settle = make_settle(pool)
    await settle.settle([page(permit) for permit in permits if "/a/" in permit.url])
    assert {permit.url.split("/")[3] for permit in await grant(pool)} == {"a"}


async def test_a_block_cools_down_and_retry_after_holds_the_domain(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 3)
    permits = await grant(pool, window=1)
    blocked = PageRejected(
        task_id=permits[0].task_id,
        attempt=permits[0].attempt,
        kind=RejectKind.REJECT_KIND_BLOCKED,
        retry_after_seconds=5,
    )
    await make_settle(pool).settle([blocked])
    assert await status_of(pool, permits[0].task_id) == "pending"
    assert await grant(pool) == []
    held = await pool.fetchval("SELECT held_until - now() FROM domains")
    assert timedelta(seconds=4) < held <= timedelta(seconds=5)


async def test_a_returned_order_costs_the_task_nothing_and_a_redirect_takes_a_new_slot(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    settle = make_settle(pool)
    late = FetchReturned(task_id=permit.task_id, attempt=permit.attempt, reason=ReturnReason.RETURN_REASON_LATE)
    await settle.settle([late])
    (again,) = await grant(pool)
    moved = FetchReturned(
        task_id=again.task_id,
        attempt=again.attempt,
        reason=ReturnReason.RETURN_REASON_REDIRECTED,
        location="http://shop.test/new",
    )
    await settle.settle([moved])
    (third,) = await grant(pool)
    assert third.url == "http://shop.test/new"
    assert await pool.fetchval("SELECT fetch_errors FROM crawl_tasks") == 0


async def test_links_and_their_page_are_settled_together(pool: Pool) -> None:
    await make_domain(pool)
    async with pool.acquire() as conn:
        await add_batch(conn, name="run", follow=True, recrawl=False, max_pages=3)
    await submit(pool, [{"url": "http://shop.test/"}], batch="run")
    (permit,) = await grant(pool)
    links = [Link(url=f"http://shop.test/p/{n}") for n in range(10)] + [Link(url="http://other.test/")]
    parsed = PageParsed(page=page(permit), links=links)
    await make_settle(pool).settle([parsed, parsed])
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks") == 3
    assert len(await grant(pool)) == 2


async def test_a_page_with_many_links_completes_only_when_every_part_was_taken(pool: Pool) -> None:
    await make_domain(pool)
    async with pool.acquire() as conn:
        await add_batch(conn, name="run", follow=True, recrawl=False, max_pages=None)
    await submit(pool, [{"url": "http://shop.test/"}], batch="run")
    (permit,) = await grant(pool)
    settle = make_settle(pool)
    parsed = PageParsed(page=page(permit), link_parts=1)
    with pytest.raises(Retryable):
        await settle.settle([parsed])
    assert await status_of(pool, permit.task_id) == "queued"
    await pool.execute("INSERT INTO link_parts VALUES ($1, $2, 1)", permit.task_id, permit.attempt)
    await settle.settle([parsed])
    assert await status_of(pool, permit.task_id) == "completed"


async def test_two_schedulers_settling_the_same_tasks_do_not_wait_for_each_other(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 50)
    permits = await grant(pool)
    first, second = make_settle(pool), make_settle(pool)
    await asyncio.gather(
        *(first.settle([page(permit) for permit in permits]) for _ in range(3)),
        *(second.settle([PageParsed(page=page(permit)) for permit in reversed(permits)]) for _ in range(3)),
    )
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks WHERE status = 'completed'") == 50
    assert await in_flight(pool) == (0, 0)


async def test_every_attempt_of_a_batch_of_facts_is_kept(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 30)
    permits = await grant(pool)
    settle = make_settle(pool)
    await settle.settle([page(permit) for permit in permits])
    await settle.settle([PageParsed(page=page(permit)) for permit in permits])
    rows = await pool.fetch("SELECT task_id, phase, outcome FROM attempts ORDER BY 1, 2")
    assert [tuple(row) for row in rows] == [
        (permit.task_id, phase, outcome)
        for permit in sorted(permits, key=lambda permit: permit.task_id)
        for phase, outcome in (("fetch", "fetched"), ("parse", "parsed"))
    ]


@pytest.mark.parametrize("delay", [0.0, 0.1])
async def test_a_held_domain_gets_nothing_and_holds_up_nobody_else(pool: Pool, delay: float) -> None:
    await make_domain(pool, "held.test", crawl_delay_seconds=delay)
    await make_domain(pool, "free.test")
    await submit_pages(pool, 3, host="held.test")
    first, second, *_ = await grant(pool, lead=5.0)
    settle = make_settle(pool)
    refused = PageRejected(
        task_id=first.task_id,
        attempt=first.attempt,
        kind=RejectKind.REJECT_KIND_BLOCKED,
        reason="429",
        retry_after_seconds=600,
    )
    returned = FetchReturned(task_id=second.task_id, attempt=second.attempt, reason=ReturnReason.RETURN_REASON_LATE)
    await settle.settle([refused])
    # Something of the held domain is due at once, and its slot is far away.
    await settle.settle([returned])
    await submit_pages(pool, 2, host="free.test")
    assert {permit.domain for permit in await grant(pool)} == {"free.test"}
    wait = await pool.fetchval("SELECT ready_at - now() FROM domains WHERE name = 'held.test'")
    assert wait > timedelta(seconds=500)
    await pool.execute("UPDATE domains SET ready_at = now() WHERE name = 'held.test'")
    assert await grant(pool) == [], "not even when it is looked at too early"


async def test_s10_schedulers_at_once_never_pass_a_groups_limit_or_the_domains(pool: Pool) -> None:
    await make_domain(pool, max_concurrent_requests=12, max_per_group=5)
    await submit(
        pool,
        [{"url": f"http://shop.test/p/{n}", "group_key": "odd" if n % 2 else "even"} for n in range(60)],
        batch=None,
    )
    settle = make_settle(pool)

    async def scheduler(rng: Random) -> int:
        done = 0
        while await pool.fetchval("SELECT count(*) FROM crawl_tasks WHERE status = 'pending'"):
            permits = await grant(pool, window=rng.choice([2, 5, 1000]))
            groups = await pool.fetch("SELECT group_key, count(*) FROM permits GROUP BY 1")
            assert all(row["count"] <= 5 for row in groups)
            assert sum(row["count"] for row in groups) <= 10
            await settle.settle([page(permit) for permit in permits])
            done += len(permits)
        return done

    async with asyncio.timeout(30):
        counts = await asyncio.gather(*(scheduler(Random(seed)) for seed in range(4)))
    assert sum(counts) == 60
    assert await in_flight(pool) == (0, 0)
    assert await pool.fetchval("SELECT sum(in_flight) FROM domain_groups") == 0


async def test_a_page_that_waits_for_links_keeps_its_permit_and_comes_back_when_they_are_lost(pool: Pool) -> None:
    await make_domain(pool)
    async with pool.acquire() as conn:
        await add_batch(conn, name="run", follow=True, recrawl=False, max_pages=None)
    await submit(pool, [{"url": "http://shop.test/"}], batch="run")
    (permit,) = await grant(pool)
    with pytest.raises(Retryable):
        await make_settle(pool).settle([PageParsed(page=page(permit), link_parts=1)])
    assert await in_flight(pool) == (1, 1)
    await pool.execute("UPDATE permits SET lease_until = now() - interval '1 second'")
    reclaim = Reclaim(pool, bus=None, parse_lease=timedelta(seconds=60), every=1, freed=lambda: None)  # type: ignore[arg-type]
    assert await reclaim.expire_permits() == 1
    assert await status_of(pool, permit.task_id) == "pending"


async def test_nobody_waits_for_the_links_of_an_attempt_that_is_over(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    settle = make_settle(pool)
    await settle.settle([PageParsed(page=page(permit))])
    await settle.settle([PageParsed(page=page(permit), link_parts=3)])
    assert await status_of(pool, permit.task_id) == "completed"


async def test_s4_every_spelling_of_a_url_is_the_same_task_for_ever(pool: Pool) -> None:
    await make_domain(pool)
    first = await submit(pool, [{"url": "http://shop.test/p?b=2&a=1"}], batch=None)
    spellings = ["HTTP://Shop.Test:80/p?b=2&a=1", "http://shop.test/p?a=1&b=2#top", "http://shop.test/x/../p?a=%31&b=2"]
    again = await submit(pool, [{"url": url} for url in spellings], batch=None)
    assert (again.created, set(again.known.values())) == ({}, set(first.created.values()))
    (permit,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    later = await submit(pool, [{"url": spellings[0]}], batch=None)
    assert later.known == again.known, "also when it has been crawled"
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks") == 1


async def test_s5_every_parse_of_a_page_is_kept_and_a_repeated_fact_is_not(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    first, second = (
        ParseFailed(page=page(permit), error="no", retryable=True, started_time=Timestamp(seconds=seconds))
        for seconds in (1_000, 2_000)
    )
    settle = make_settle(pool)
    await settle.settle([first, first])
    await pool.execute("UPDATE crawl_tasks SET status = 'parsing'")
    await settle.settle([first, second])
    rows = await pool.fetch("SELECT phase, outcome FROM attempts ORDER BY phase, ended_at")
    assert [tuple(row) for row in rows] == [("fetch", "fetched"), ("parse", "parse_failed"), ("parse", "parse_failed")]
