"""Leases of a whole fetcher from a real gRPC server: used, kept, asked for again, reported, and done without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.contracts.events.v1.beat_pb2 import Beat
from limpet.contracts.events.v1.fetch_pb2 import (
    FailureKind,
    FetchFailed,
    FetchRequested,
    FetchReturned,
    OrderKind,
    ProxyPolicy,
    ReturnReason,
)
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected
from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant, Outcome
from limpet.fetcher.broker import FAILURES, HOLD_SECONDS
from limpet.kit.breaker import State
from limpet.kit.bus import Bus, subject_of
from limpet.kit.clock import seconds_to_stamp
from tests.conftest import PoolFactory
from tests.support.fetching import BOOTS, Fetcher, Place, database_now, fetching_place, tell_the_time
from tests.support.rough_site import reply
from tests.support.servers import free_port
from tests.support.told_broker import ToldBroker, told_broker
from tests.support.waiting import until

REQUIRED, PREFERRED = ProxyPolicy.PROXY_POLICY_REQUIRED, ProxyPolicy.PROXY_POLICY_PREFERRED
SUCCESS, UNUSED = Outcome.OUTCOME_SUCCESS, Outcome.OUTCOME_UNUSED
NO_PROXY = ReturnReason.RETURN_REASON_NO_PROXY
SHOP = "93.184.216.34"


@pytest.fixture
async def place(bus: Bus, nats_url: str, pool_of: PoolFactory, tmp_path: Path) -> AsyncIterator[Place]:
    pool = await pool_of("limpet.fetcher")
    async with fetching_place(bus, nats_url=nats_url, pool=pool, pages=tmp_path) as place:
        await tell_the_time(bus)
        # The site stands in for the proxy as well: it is asked for a whole address.
        place.site.answers[f"http://{SHOP}/p"] = reply(BOOTS)
        yield place


def order(
    place: Place,
    task: int,
    *,
    policy: ProxyPolicy.ValueType = REQUIRED,
    soon: float = 0.0,
    window: float = 20.0,
    path: str = "/p",
    kind: OrderKind.ValueType = OrderKind.ORDER_KIND_PAGE,
    group: str = "",
) -> FetchRequested:
    """For a page of the shop, which only the proxy reaches."""
    made = place.order(task=task, soon=soon, window=window)
    made.url, made.domain = f"http://{SHOP}{path}", SHOP
    made.proxy_policy, made.kind, made.group_key = policy, kind, group
    return made


def grant(place: Place, *, port: int = 0) -> Grant:
    return Grant(lease_id=5, proxy_id=9, protocol="http", host="127.0.0.1", port=port or place.site.port)


def reported(broker: ToldBroker) -> list[tuple[int, Outcome.ValueType]]:
    return [(used.lease_id, used.outcome) for used in broker.uses]


async def give_back_late(place: Place, broker: ToldBroker, task: int, *, group: str = "") -> None:
    """The broker answers when the order's time is over: the lease comes and there is nothing to use it for."""
    broker.open.clear()
    made = order(place, task, window=0.3, group=group)
    await place.send(made)

    async def over() -> bool:
        return bool(broker.wants) and database_now() > made.start_by_time.ToNanoseconds() / 1e9

    await until(over)
    broker.open.set()
    assert (await place.heard.one(FetchReturned, task)).reason == ReturnReason.RETURN_REASON_LATE


async def test_f2_a_leased_proxy_is_used_and_reported(place: Place) -> None:
    broker = ToldBroker(grant(place))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order(place, 1, group="tea"), order(place, 2, policy=PREFERRED))
            assert (await place.heard.one(PageFetched, 1)).proxy_id == 9
            await place.heard.one(PageFetched, 2)
    wants = {want.task_id: want for want in broker.wants}
    assert (wants[1].domain, wants[1].attempt, wants[1].session_key, wants[1].direct_allowed) == (SHOP, 1, "tea", False)
    assert (wants[2].session_key, wants[2].direct_allowed) == ("", True)
    assert [(used.outcome, used.byte_count, used.error) for used in broker.uses] == [(SUCCESS, len(BOOTS), "")] * 2


async def test_f2_a_direct_lease_goes_without_a_proxy_and_is_reported(place: Place) -> None:
    broker = ToldBroker(Grant(lease_id=5, direct=True))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        made = place.order(task=1)
        made.proxy_policy = PREFERRED
        async with fetcher.taking_orders():
            await place.send(made)
            assert (await place.heard.one(PageFetched, 1)).proxy_id == 0
    assert place.site.targets() == ["/p"]
    assert reported(broker) == [(5, SUCCESS)]


async def test_f2_a_lease_that_was_not_used_serves_the_next_order_of_its_session(place: Place) -> None:
    broker = ToldBroker(grant(place))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await give_back_late(place, broker, 1, group="tea")
            await place.send(order(place, 2, group="salt"))
            await place.heard.one(PageFetched, 2)
            assert [want.task_id for want in broker.wants] == [1, 2], "another session needs a lease of its own"
            await place.send(order(place, 3, group="tea"))
            assert (await place.heard.one(PageFetched, 3)).proxy_id == 9
    assert [want.task_id for want in broker.wants] == [1, 2]
    assert sorted(reported(broker)) == [(5, SUCCESS), (6, SUCCESS)]


async def test_f2_a_lease_that_nobody_used_is_given_back_when_the_fetcher_stops(place: Place) -> None:
    broker = ToldBroker(grant(place))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await give_back_late(place, broker, 1)
            await place.send(order(place, 2, soon=60.0))

            async def both_leased() -> bool:
                return len(broker.given) == 2 or fetcher.slots.in_hand == 1

            await until(both_leased)
            await fetcher.slots.drain(10)
            await place.heard.one(FetchReturned, 2)
    assert {lease_id for lease_id, _ in reported(broker)} == {5 + n for n in range(len(broker.given))}
    assert {outcome for _, outcome in reported(broker)} == {UNUSED}


async def test_f2_a_kept_lease_is_given_back_before_it_expires(place: Place) -> None:
    """The broker gives less than was asked for: the request would no longer fit."""
    broker = ToldBroker(grant(place))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            broker.grant.expires_time.CopyFrom(seconds_to_stamp(database_now() + 10.3 + 5 + 1.5))
            await give_back_late(place, broker, 1)

            async def given_back() -> bool:
                return reported(broker) == [(5, UNUSED)]

            await until(given_back)
            await place.send(order(place, 2))
            await place.heard.one(PageFetched, 2)
    assert [want.task_id for want in broker.wants] == [1, 2]


async def test_f2_an_order_that_is_late_already_costs_no_lease(place: Place) -> None:
    broker = ToldBroker(grant(place))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order(place, 1, soon=-30.0))
            assert (await place.heard.one(FetchReturned, 1)).reason == ReturnReason.RETURN_REASON_LATE
    assert (broker.wants, broker.uses) == ([], [])


async def test_f2_a_lost_answer_is_asked_for_once_more_and_brings_the_same_lease(place: Place) -> None:
    broker = ToldBroker(grant(place), loses=1)
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order(place, 1))
            await place.heard.one(PageFetched, 1)
    assert [(want.task_id, want.attempt) for want in broker.wants] == [(1, 1), (1, 1)]
    assert reported(broker) == [(5, SUCCESS)]


async def test_f6_a_block_is_reported_with_its_reason_and_a_dead_proxy_blamed(place: Place) -> None:
    place.site.answers[f"http://{SHOP}/no"] = reply(b"go away", "403 Forbidden")
    place.site.answers[f"http://{SHOP}/robots.txt"] = reply(b"go away", "403 Forbidden")
    broker = ToldBroker(grant(place))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order(place, 1, path="/no"))
            await place.heard.one(PageRejected, 1)
            await place.send(order(place, 2, path="/robots.txt", kind=OrderKind.ORDER_KIND_ROBOTS))
            await place.heard.one(PageRejected, 2)
            broker.grant.port = free_port()
            # Its slot leaves no time for a retry.
            await place.send(order(place, 3, window=1.0))
            assert (await place.heard.one(FetchFailed, 3)).kind == FailureKind.FAILURE_KIND_PROXY
    told = {used.lease_id: (used.outcome, used.error, used.byte_count) for used in broker.uses}
    assert told == {
        5: (Outcome.OUTCOME_BLOCKED, "status 403", len(b"go away")),
        6: (Outcome.OUTCOME_SITE_FAILED, "status 403", len(b"go away")),
        7: (Outcome.OUTCOME_PROXY_FAILED, "the proxy refused the connection", 0),
    }


async def test_f6_reports_wait_for_a_broker_that_is_away(place: Place) -> None:
    finish = asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        await finish.wait()
        writer.write(reply(BOOTS))

    place.site.answers[f"http://{SHOP}/slow"] = slow
    broker, port = ToldBroker(grant(place)), free_port()
    fetcher = await place.make(broker=f"127.0.0.1:{port}")
    fetcher.broker.breaker.timeout_seconds = 0.2
    async with fetcher.taking_orders():
        async with told_broker(broker, port=port):
            await place.send(order(place, 1, path="/slow"))

            async def asked() -> bool:
                return bool(place.site.asked)

            await until(asked)
        finish.set()
        await place.heard.one(PageFetched, 1)

        async def tried() -> bool:
            return fetcher.broker.breaker.total_failures > 0

        await until(tried)
        assert broker.uses == []
        async with told_broker(broker, port=port):

            async def heard() -> bool:
                return reported(broker) == [(5, SUCCESS)]

            await until(heard, seconds=20)


async def test_f2_while_the_broker_is_away_a_required_proxy_holds_the_domain_and_a_preferred_one_does_not(
    place: Place,
) -> None:
    fetcher = await place.make()
    preferred = place.order(task=2)
    preferred.proxy_policy = PREFERRED
    async with fetcher.taking_orders():
        await place.send(order(place, 1))
        back = await place.heard.one(FetchReturned, 1)
        assert (back.reason, back.hold_seconds) == (NO_PROXY, HOLD_SECONDS)
        assert place.site.asked == []
        await place.send(preferred)
        assert (await place.heard.one(PageFetched, 2)).proxy_id == 0


async def open_the_breaker(place: Place, fetcher: Fetcher) -> None:
    for task in range(100, 100 + FAILURES):
        if fetcher.broker.breaker.state is State.OPEN:
            break
        await place.send(order(place, task))
        assert (await place.heard.one(FetchReturned, task)).reason == NO_PROXY
    assert fetcher.broker.breaker.state is State.OPEN


async def test_f2_an_open_breaker_decides_without_a_call_and_lets_one_through_at_a_time_when_it_is_half_open(
    place: Place,
) -> None:
    broker, port = ToldBroker(grant(place)), free_port()
    fetcher = await place.make(broker=f"127.0.0.1:{port}", limit=64)
    breaker = fetcher.broker.breaker
    async with fetcher.taking_orders():
        await open_the_breaker(place, fetcher)
        broker.open.clear()
        async with told_broker(broker, port=port):
            preferred = place.order(task=2)
            preferred.proxy_policy = PREFERRED
            await place.send(order(place, 1), preferred)
            back = await place.heard.one(FetchReturned, 1)
            assert back.reason == NO_PROXY
            assert 1 <= back.hold_seconds <= HOLD_SECONDS
            await place.heard.one(PageFetched, 2)
            assert broker.calls == 0
            await fetcher.channel.channel_ready()
            breaker.timeout_seconds = 0.0
            await place.send(order(place, 3))

            async def probed() -> bool:
                return broker.calls == 1

            await until(probed)
            breaker.timeout_seconds = 60.0
            await place.send(order(place, 4))
            assert (await place.heard.one(FetchReturned, 4)).reason == NO_PROXY
            assert broker.calls == 1
            broker.open.set()
            await place.heard.one(PageFetched, 3)
            assert breaker.state is State.CLOSED
            await place.send(order(place, 5))
            await place.heard.one(PageFetched, 5)


async def test_f2_the_breakers_state_goes_out_with_the_beat(place: Place) -> None:
    beats: list[Beat] = []

    async def on_beat(data: bytes) -> None:
        beats.append(Beat.FromString(data))

    await place.bus.subscribe(f"{subject_of(Beat)}.>", on_beat)
    await place.bus.client.flush()
    fetcher = await place.make()
    async with fetcher.taking_orders():
        await open_the_breaker(place, fetcher)
        pulse = asyncio.create_task(fetcher.fetch.pulse.run())

        async def seen() -> bool:
            return bool(beats)

        await until(seen)
        pulse.cancel()
    (breaker,) = beats[0].breakers
    assert (breaker.name, breaker.state) == ("proxy-broker", "OPEN")
    assert breaker.total_failures >= FAILURES


async def test_a_broker_that_refuses_says_for_how_long(place: Place) -> None:
    broker = ToldBroker(Grant(refusal="cooling", retry_time=seconds_to_stamp(database_now() + 42)))
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order(place, 1))
            back = await place.heard.one(FetchReturned, 1)
    assert back.reason == NO_PROXY
    assert 35 < back.hold_seconds <= 42
    assert place.site.asked == []


async def test_f6_where_the_site_refuses_every_proxy_our_own_address_is_not_sent_there_either(place: Place) -> None:
    broker = ToldBroker(Grant(refusal="domain_blocked", retry_time=seconds_to_stamp(database_now() + 42)))
    preferred = place.order(task=1)
    preferred.proxy_policy = PREFERRED
    async with told_broker(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(preferred)
            back = await place.heard.one(FetchReturned, 1)
    assert (back.reason, back.hold_seconds > 35) == (NO_PROXY, True)
    assert place.site.asked == []
