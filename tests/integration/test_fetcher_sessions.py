"""What a fetcher remembers of a domain from one order to the next: its cookies and how fast it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected
from limpet.kit.bus import Bus
from tests.conftest import PoolFactory
from tests.support.fetching import BOOTS, Place, fetching_place, tell_the_time
from tests.support.rough_site import reply


@pytest.fixture
async def place(bus: Bus, nats_url: str, pool_of: PoolFactory, tmp_path: Path) -> AsyncIterator[Place]:
    pool = await pool_of("limpet.fetcher")
    async with fetching_place(bus, nats_url=nats_url, pool=pool, pages=tmp_path) as place:
        await tell_the_time(bus)
        yield place


async def test_f3_a_sites_cookie_comes_back_until_the_site_refuses_us(place: Place) -> None:
    place.site.answers["/login"] = reply(BOOTS, set_cookie="session=abc; Path=/; HttpOnly")
    place.site.answers["/no"] = reply(b"no", "403 Forbidden")
    robots = place.order("/p", task=3)
    robots.kind = OrderKind.ORDER_KIND_ROBOTS
    fetcher = await place.make()
    async with fetcher.taking_orders():
        for order in (place.order("/login", task=1), place.order(task=2), robots):
            await place.send(order)
            await place.heard.one(PageFetched, order.task_id)
        await place.send(place.order("/no", task=4))
        await place.heard.one(PageRejected, 4)
        await place.send(place.order(task=5))
        await place.heard.one(PageFetched, 5)
    seen = [asked.headers.get("cookie") for asked in place.site.asked]
    assert seen == [None, "session=abc", None, "session=abc", None]


async def test_f3_a_domain_that_is_known_to_be_fast_is_not_waited_for_until_the_end(place: Place) -> None:
    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    place.site.answers["/silent"] = silent
    fetcher = await place.make()
    for _ in range(20):
        fetcher.fetch.patience.answered(place.site.domain, 0.01)
    async with fetcher.taking_orders():
        begun = time.monotonic()
        await place.send(place.order("/silent", task=1))
        fact = await place.heard.one(FetchFailed, 1)
        took = time.monotonic() - begun
    assert (fact.kind, fact.error) == (FailureKind.FAILURE_KIND_TIMEOUT, "no complete answer within 5.0 s")
    assert took < 15
