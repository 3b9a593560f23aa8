"""Orders in, facts out: the whole fetcher on real NATS and PostgreSQL, with only the scheduler's clock stood in for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from limpet.contracts.events.v1.fetch_pb2 import (
    FailureKind,
    FetchFailed,
    FetchReturned,
    ReturnReason,
)
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.fetcher.blocks import THRESHOLD
from limpet.fetcher.egress import Egress
from limpet.kit.bus import Bus
from limpet.kit.clock import seconds_to_stamp
from limpet.kit.ops import Readiness
from tests.conftest import PoolFactory
from tests.support.fetching import AHEAD, BOOTS, Place, database_now, fetching_place, tell_the_time
from tests.support.labelled import LABELLED
from tests.support.rough_site import reply
from tests.support.servers import free_port
from tests.support.waiting import until


@pytest.fixture
async def place(bus: Bus, nats_url: str, pool_of: PoolFactory, tmp_path: Path) -> AsyncIterator[Place]:
    pool = await pool_of("limpet.fetcher")
    async with fetching_place(bus, nats_url=nats_url, pool=pool, pages=tmp_path) as place:
        yield place


async def test_a_page_is_fetched_stored_and_told(place: Place) -> None:
    await tell_the_time(place.bus)
    fetcher = await place.make()
    async with fetcher.taking_orders():
        order = place.order(task=7)
        order.batch, order.follow = "run", True
        await place.send(order)
        fact = await place.heard.one(PageFetched, 7)
        await place.all_taken()
    assert (fact.attempt, fact.url, fact.domain, fact.batch, fact.follow) == (
        1, place.site.url("/p"), place.site.domain, "run", True,
    )  # fmt: skip
    assert (fact.http_status, fact.size_bytes, fact.charset, fact.proxy_id) == (200, len(BOOTS), "utf-8", 0)
    assert await place.blobs.get(fact.body_key) == BOOTS
    row = await place.pool.fetchrow("SELECT * FROM http_responses")
    assert row is not None
    assert (row["task_id"], row["attempt"], row["verdict"], row["http_status"]) == (7, 1, "fetched", 200)
    assert (row["body_key"], row["url"]) == (fact.body_key, place.site.url("/p"))
    assert abs(row["fetched_at"].timestamp() - database_now()) < 60
    assert place.site.targets() == ["/p"]


async def test_the_same_body_is_stored_once_whoever_fetched_it(place: Place) -> None:
    await tell_the_time(place.bus)
    place.site.answers["/q"] = place.site.answers["/p"]
    fetcher = await place.make()
    async with fetcher.taking_orders():
        for task, path in enumerate(("/p", "/q", "/p"), start=1):
            await place.send(place.order(path, task=task))
            await place.heard.one(PageFetched, task)
    keys = {fact.body_key for fact in place.heard.of(PageFetched)}
    assert len(keys) == 1
    assert await place.pool.fetchval("SELECT count(*) FROM bodies") == 1
    assert await place.pool.fetchval("SELECT count(*) FROM http_responses") == 3


async def test_every_answer_ends_in_its_own_fact_and_row(place: Place) -> None:
    await tell_the_time(place.bus)
    answers = place.site.answers
    answers["/blocked"] = reply(b"no", "429 Too Many", retry_after="33")
    answers["/broken"] = reply(b"oops", "500 Oops")
    answers["/small"] = reply(b"<p>x</p>")
    answers["/moved"] = reply(b"", "301 Moved", location="/p")
    answers["/away"] = reply(b"", "302 Found", location="http://169.254.169.254/")
    fetcher = await place.make()
    async with fetcher.taking_orders():
        paths = ["/gone", "/blocked", "/broken", "/small", "/moved", "/away"]
        orders = [place.order(path, task=number) for number, path in enumerate(paths)]
        orders[3].min_body_bytes = 500
        await place.send(*orders[:3], queue="high")
        await place.send(*orders[3:])
        gone = await place.heard.one(FetchFailed, 0)
        blocked = await place.heard.one(PageRejected, 1)
        broken = await place.heard.one(FetchFailed, 2)
        small = await place.heard.one(PageRejected, 3)
        moved = await place.heard.one(FetchReturned, 4)
        away = await place.heard.one(FetchFailed, 5)
    assert (gone.kind, gone.http_status) == (FailureKind.FAILURE_KIND_CLIENT_ERROR, 404)
    assert (blocked.kind, blocked.retry_after_seconds) == (RejectKind.REJECT_KIND_BLOCKED, 33)
    assert (broken.kind, broken.http_status) == (FailureKind.FAILURE_KIND_SERVER_ERROR, 500)
    assert small.kind == RejectKind.REJECT_KIND_GARBAGE
    assert (moved.reason, moved.location) == (ReturnReason.RETURN_REASON_REDIRECTED, place.site.url("/p"))
    assert away.kind == FailureKind.FAILURE_KIND_REDIRECT
    assert sorted(place.site.targets()) == sorted(paths)
    rows = await place.pool.fetch("SELECT verdict, body_key FROM http_responses ORDER BY task_id")
    assert [row["verdict"] for row in rows] == ["failed", "blocked", "failed", "garbage", "redirected", "failed"]
    assert {row["body_key"] for row in rows} == {""}


async def test_f4_a_rejected_page_is_told_and_kept_with_its_evidence(place: Place) -> None:
    await tell_the_time(place.bus)
    wall = next(page.body for page in LABELLED if page.vendor == "cloudflare")
    place.site.answers["/wall"] = reply(wall, "403 Forbidden")
    place.site.answers["/bare"] = reply(b"no", "403 Forbidden")
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order("/wall", task=1), place.order("/bare", task=2), place.order(task=3))
        told = await place.heard.one(PageRejected, 1)
        bare = await place.heard.one(PageRejected, 2)
        await place.heard.one(PageFetched, 3)
    assert told.vendor == "cloudflare"
    assert told.score >= THRESHOLD
    assert len(told.signals) >= 2
    assert (bare.vendor, bare.score, list(bare.signals)) == ("", 0, [])
    rows = await place.pool.fetch("SELECT vendor, score, signals FROM http_responses ORDER BY task_id")
    assert [tuple(row) for row in rows] == [
        (told.vendor, told.score, list(told.signals)),
        ("", 0, []),
        ("", 0, []),
    ]


async def test_orders_of_one_message_are_carried_out_side_by_side_and_each_ends_in_its_own_fact(place: Place) -> None:
    await tell_the_time(place.bus)
    place.site.answers["/broken"] = reply(b"oops", "500 Oops")
    fetcher = await place.make()
    async with fetcher.taking_orders():
        late = place.order(task=3, soon=-60.0, window=1.0)
        await place.send_together(place.order(task=1), place.order("/broken", task=2), late, place.order(task=4))
        for task in (1, 4):
            await place.heard.one(PageFetched, task)
        assert (await place.heard.one(FetchFailed, 2)).http_status == 500
        assert (await place.heard.one(FetchReturned, 3)).reason == ReturnReason.RETURN_REASON_LATE
        await place.all_taken()
    assert sorted(place.site.targets()) == ["/broken", "/p", "/p"]


async def test_a_hostile_location_costs_its_own_page_and_not_those_of_the_same_moment(place: Place) -> None:
    await tell_the_time(place.bus)
    place.site.answers["/bad"] = reply(b"", "302 Found", location="mailto:\xff\xfe")
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order("/bad", task=1), *(place.order(task=task) for task in (2, 3)))
        fact = await place.heard.one(FetchFailed, 1)
        for task in (2, 3):
            await place.heard.one(PageFetched, task)
    assert (fact.kind, "mailto:%FF%FE" in fact.error) == (FailureKind.FAILURE_KIND_REDIRECT, True)


async def test_nothing_starts_before_its_time_on_the_databases_clock(place: Place) -> None:
    await tell_the_time(place.bus)
    fetcher = await place.make()
    orders = [place.order(f"/p?{n}", task=n, soon=0.3 + 0.05 * n) for n in range(6)]
    async with fetcher.taking_orders():
        await place.send(*orders)
        for order in orders:
            await place.heard.one(PageFetched, order.task_id)
    slots = {order.url.rpartition("?")[2]: order.not_before_time.ToNanoseconds() / 1e9 for order in orders}
    assert len(place.site.asked) == 6
    for asked in place.site.asked:
        assert asked.at + AHEAD >= slots[asked.target.rpartition("?")[2]]
    for fact in place.heard.of(PageFetched):
        assert fact.started_time.ToNanoseconds() / 1e9 >= slots[str(fact.task_id)]


async def test_a_late_order_goes_back_and_the_site_hears_nothing(place: Place) -> None:
    await tell_the_time(place.bus)
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order(task=1, soon=-30.0), place.order(task=2, window=0.0))
        for task in (1, 2):
            fact = await place.heard.one(FetchReturned, task)
            assert (fact.reason, fact.hold_seconds) == (ReturnReason.RETURN_REASON_LATE, 0.0)
        await place.all_taken()
    assert place.site.asked == []
    assert await place.pool.fetchval("SELECT count(*) FROM http_responses") == 0


async def test_without_the_schedulers_clock_nothing_starts(place: Place) -> None:
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order(task=1))
        fact = await place.heard.one(FetchReturned, 1)
    assert fact.reason == ReturnReason.RETURN_REASON_NO_CLOCK
    assert place.site.asked == []


async def test_an_order_that_was_handed_out_before_makes_no_request(place: Place) -> None:
    """Its first holder may still be at it, so only the permit's end brings the task back."""
    await tell_the_time(place.bus)
    await place.send(place.order(task=1))
    first = await place.bus.client.jetstream().pull_subscribe_bind(consumer="fetcher-normal", stream="FETCH")
    (message,) = await first.fetch(1, timeout=5)
    await message.nak()
    await first.unsubscribe()
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.all_taken()
        await place.send(place.order(task=2))
        await place.heard.one(PageFetched, 2)
    assert place.site.targets() == ["/p"]
    assert place.heard.of(PageFetched, 1) == place.heard.of(FetchReturned, 1) == []


async def test_an_order_published_twice_is_one_request(place: Place) -> None:
    await tell_the_time(place.bus)
    fetcher = await place.make()
    order = place.order(task=1)
    async with fetcher.taking_orders():
        await place.send(order, order, order)
        await place.heard.one(PageFetched, 1)
        await place.all_taken()
    assert place.site.targets() == ["/p"]


async def test_a_stop_gives_back_what_waits_and_finishes_what_runs(place: Place) -> None:
    await tell_the_time(place.bus)
    reached, finish = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        reached.set()
        await finish.wait()
        writer.write(reply(BOOTS))

    place.site.answers["/slow"] = slow
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order("/slow", task=1), place.order(task=2, soon=60.0), place.order(task=3, soon=60.0))
        async with asyncio.timeout(10):
            await reached.wait()

        async def all_in_hand() -> bool:
            return fetcher.slots.in_hand == 3

        await until(all_in_hand)
        draining = asyncio.create_task(fetcher.slots.drain(10))
        for task in (2, 3):
            back = await place.heard.one(FetchReturned, task)
            assert back.reason == ReturnReason.RETURN_REASON_SHUTDOWN
        assert not draining.done()
        finish.set()
        await draining
        await place.heard.one(PageFetched, 1)
        await place.all_taken()
    assert place.site.targets() == ["/slow"]


async def test_f1_a_request_that_outlasts_the_drain_goes_back_before_it_ends(place: Place) -> None:
    await tell_the_time(place.bus)
    reached = asyncio.Event()

    async def endless(_writer: asyncio.StreamWriter) -> None:
        reached.set()
        await asyncio.Event().wait()

    place.site.answers["/endless"] = endless
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(place.order("/endless", task=1))
        async with asyncio.timeout(10):
            await reached.wait()
        begun = time.monotonic()
        await fetcher.slots.drain(1.0)
        assert (fetcher.slots.in_hand, time.monotonic() - begun < 1.0) == (0, True)
        assert (await place.heard.one(FetchReturned, 1)).reason == ReturnReason.RETURN_REASON_SHUTDOWN
        await place.all_taken()


async def test_f11_without_a_network_an_order_goes_back_and_nobody_is_to_blame(place: Place) -> None:
    await tell_the_time(place.bus)
    fetcher = await place.make()
    dead = free_port()
    fetcher.fetch = replace(fetcher.fetch, egress=Egress([("127.0.0.1", dead)], fetcher.slots, Readiness()))
    order = place.order(task=1)
    order.url = f"http://127.0.0.1:{dead}/p"
    async with fetcher.taking_orders():
        await place.send(place.order(task=2, soon=60.0))

        async def waiting() -> bool:
            return fetcher.slots.in_hand == 1

        await until(waiting)
        await place.send(order)
        for task in (1, 2):
            back = await place.heard.one(FetchReturned, task)
            assert back.reason == ReturnReason.RETURN_REASON_NO_NETWORK
        assert fetcher.slots.free() == 0
        await place.all_taken()
    assert place.heard.of(FetchFailed, 1) == []


async def test_a_request_is_over_by_the_time_to_give_up(place: Place) -> None:
    await tell_the_time(place.bus)

    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    place.site.answers["/silent"] = silent
    order = place.order("/silent", task=1)
    order.give_up_time.CopyFrom(seconds_to_stamp(database_now() + 1.0))
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(order)
        fact = await place.heard.one(FetchFailed, 1)
        assert database_now() < order.give_up_time.ToNanoseconds() / 1e9 + 1.0
    assert fact.kind == FailureKind.FAILURE_KIND_TIMEOUT
    assert fact.response_ms <= 1000


async def test_a_private_address_is_a_fact_and_not_a_request(place: Place) -> None:
    await tell_the_time(place.bus)
    order = place.order(task=1)
    order.url = "http://169.254.169.254/latest/meta-data/"
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await place.send(order)
        fact = await place.heard.one(FetchFailed, 1)
    assert fact.kind == FailureKind.FAILURE_KIND_FORBIDDEN_ADDRESS
