"""F7: a proxy that does not take a request costs a wait and another proxy; the site hears of one request at most."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchRequested, ProxyPolicy
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant, Outcome
from limpet.kit.bus import Bus
from tests.conftest import PoolFactory
from tests.support import hostile
from tests.support.fetching import BOOTS, Place, fetching_place, tell_the_time
from tests.support.rough_site import reply, rough_site
from tests.support.servers import free_port
from tests.support.told_broker import ToldBroker, told_broker

SHOP = "93.184.216.34"
FAILED, SUCCESS, UNUSED = Outcome.OUTCOME_PROXY_FAILED, Outcome.OUTCOME_SUCCESS, Outcome.OUTCOME_UNUSED


@pytest.fixture
async def place(bus: Bus, nats_url: str, pool_of: PoolFactory, tmp_path: Path) -> AsyncIterator[Place]:
    pool = await pool_of("limpet.fetcher")
    async with fetching_place(bus, nats_url=nats_url, pool=pool, pages=tmp_path) as place:
        await tell_the_time(bus)
        # The site stands in for a proxy as well: it is asked for a whole address.
        place.site.answers[f"http://{SHOP}/p"] = reply(BOOTS)
        yield place


def order(place: Place, *, window: float = 20.0) -> FetchRequested:
    made = place.order(task=1, window=window)
    made.url, made.domain = f"http://{SHOP}/p", SHOP
    made.proxy_policy = ProxyPolicy.PROXY_POLICY_REQUIRED
    return made


def proxy(number: int, port: int, *, protocol: str = "http") -> Grant:
    return Grant(lease_id=100, proxy_id=number, protocol=protocol, host="127.0.0.1", port=port)


def outcomes(broker: ToldBroker) -> list[Outcome.ValueType]:
    return [used.outcome for used in broker.uses]


async def test_f7_a_dead_proxy_and_one_that_wants_other_credentials_are_followed_by_a_good_one(place: Place) -> None:
    async with rough_site() as closed:
        closed.answers[f"http://{SHOP}/p"] = reply(b"", "407 Proxy Authentication Required")
        broker = ToldBroker(proxy(3, place.site.port), first=[proxy(1, free_port()), proxy(2, closed.port)])
        begun = time.monotonic()
        async with told_broker(broker) as address:
            fetcher = await place.make(broker=address)
            async with fetcher.taking_orders():
                await place.send(order(place))
                fact = await place.heard.one(PageFetched, 1)
        took = time.monotonic() - begun
    assert fact.proxy_id == 3
    assert outcomes(broker) == [FAILED, FAILED, SUCCESS]
    assert place.site.targets() == [f"http://{SHOP}/p"]
    assert took >= 3.0
    assert await place.pool.fetchval("SELECT count(*) FROM http_responses") == 1


async def test_f7_what_may_have_reached_the_site_goes_back_to_the_scheduler_at_once(place: Place) -> None:
    place.site.answers[f"http://{SHOP}/p"] = hostile.raw(b"")
    broker = ToldBroker(proxy(1, place.site.port))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order(place))
            fact = await place.heard.one(FetchFailed, 1)
    assert fact.kind == FailureKind.FAILURE_KIND_NETWORK
    assert (len(place.site.asked), len(broker.wants)) == (1, 1)


async def test_f7_nothing_is_tried_again_outside_the_orders_slot(place: Place) -> None:
    broker = ToldBroker(proxy(2, place.site.port), first=[proxy(1, free_port())])
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order(place, window=1.0))
            fact = await place.heard.one(FetchFailed, 1)
    assert (fact.kind, fact.proxy_id) == (FailureKind.FAILURE_KIND_PROXY, 1)
    assert (place.site.asked, len(broker.wants)) == ([], 1)


async def test_f7_the_same_proxy_is_not_tried_twice(place: Place) -> None:
    broker = ToldBroker(proxy(1, free_port()))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order(place))
            fact = await place.heard.one(FetchFailed, 1)
    assert fact.kind == FailureKind.FAILURE_KIND_PROXY
    assert len(broker.wants) == 2
    assert outcomes(broker) == [FAILED, UNUSED]
