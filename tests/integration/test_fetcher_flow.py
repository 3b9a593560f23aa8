"""Orders in, facts out: the whole fetcher on real NATS and PostgreSQL, with only the scheduler's clock stood in for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest

from limpet.contracts.events.v1.fetch_pb2 import (
    ClockReply,
    ClockRequest,
    FailureKind,
    FetchFailed,
    FetchRequested,
    FetchReturned,
    FetchStarted,
    OrderKind,
    ProxyPolicy,
    ReturnReason,
)
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.proxy.v1.proxy_service_pb2 import (
    Grant,
    LeaseRequest,
    LeaseResponse,
    Outcome,
    ReportRequest,
    ReportResponse,
    Used,
    Want,
)
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import (
    ProxyServiceServicer,
    ProxyServiceStub,
    add_ProxyServiceServicer_to_server,
)
from limpet.fetcher.archive import Archive
from limpet.fetcher.clocksync import ClockSync
from limpet.fetcher.egress import Egress
from limpet.fetcher.fetch import Fetch
from limpet.fetcher.proxies import HOLD_SECONDS, Proxies
from limpet.fetcher.slots import Slots
from limpet.fetcher.web import open_web
from limpet.kit.beat import Pulse
from limpet.kit.blobs import Blobs
from limpet.kit.bus import Bus, open_bus, subject_of
from limpet.kit.clock import seconds_to_stamp
from limpet.kit.guard import Guard, networks_of
from limpet.kit.ops import Readiness
from limpet.kit.pg import Pool
from limpet.kit.rpc import open_channel
from limpet.kit.streams import FETCHER_HIGH, FETCHER_NORMAL
from limpet.kit.underway import Underway
from tests.conftest import PoolFactory
from tests.support.heard import Heard, listen
from tests.support.rough_site import RoughSite, reply, rough_site
from tests.support.servers import free_port
from tests.support.waiting import until

# The scheduler database's clock is far from ours: whoever trusts their own is found out.
AHEAD = 1_000_000.0
BOOTS = b"<html><h1>Boots</h1><p>Waxed and stitched by hand.</p></html>"


def database_now() -> float:
    return time.time() + AHEAD


async def tell_the_time(bus: Bus) -> None:
    async def answer(_data: bytes) -> bytes:
        return ClockReply(now_time=seconds_to_stamp(database_now())).SerializeToString()

    await bus.subscribe(subject_of(ClockRequest), answer)
    await bus.client.flush()


@dataclass
class Fetcher:
    """What main.py puts together, without the process around it."""

    slots: Slots
    clock: ClockSync
    proxies: Proxies
    fetch: Fetch
    bus: Bus

    @asynccontextmanager
    async def taking_orders(self) -> AsyncIterator[None]:
        await self.clock.burst()
        handler, free = self.fetch.on_fetch_requested, self.slots.free
        parts = [
            asyncio.create_task(self.bus.consume(spec, handler, slots=8, free=free))
            for spec in (FETCHER_HIGH, FETCHER_NORMAL)
        ]
        try:
            yield
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await self.proxies.drain()


@dataclass
class Place:
    """All that a test needs to send orders and see what comes of them."""

    bus: Bus
    site: RoughSite
    heard: Heard
    blobs: Blobs
    pool: Pool
    make: Callable[..., Awaitable[Fetcher]]

    def order(self, path: str = "/p", *, task: int = 1, soon: float = 0.0, window: float = 20.0) -> FetchRequested:
        slot = database_now() + soon
        return FetchRequested(
            task_id=task,
            attempt=1,
            url=self.site.url(path),
            domain=self.site.domain,
            kind=OrderKind.ORDER_KIND_PAGE,
            proxy_policy=ProxyPolicy.PROXY_POLICY_NONE,
            user_agent="limpet-test",
            parser="generic",
            not_before_time=seconds_to_stamp(slot),
            start_by_time=seconds_to_stamp(slot + window),
            give_up_time=seconds_to_stamp(slot + window + 10),
        )

    async def send(self, *orders: FetchRequested, queue: str = "normal") -> None:
        for order in orders:
            await self.send_together(order, queue=queue)

    async def send_together(self, *orders: FetchRequested, queue: str = "normal") -> None:
        key = f"fetch-requested:{orders[0].task_id}:{orders[0].attempt}"
        await self.bus.publish_together(orders, key=key, suffix=queue)

    async def all_taken(self) -> None:
        """Until the stream holds no order: each has been acknowledged."""

        async def empty() -> bool:
            return (await self.bus.client.jetstream().stream_info("FETCH")).state.messages == 0

        await until(empty)


@pytest.fixture
async def place(bus: Bus, nats_url: str, pool_of: PoolFactory, tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        pool = await pool_of("limpet.fetcher")
        site = await stack.enter_async_context(rough_site())
        site.answers["/p"] = reply(BOOTS, content_type="text/html; charset=utf-8")
        blobs = Blobs.open(tmp_path.as_uri())

        async def make(*, broker: str = "", limit: int = 8) -> Fetcher:
            own = await stack.enter_async_context(open_bus(nats_url, name="fetcher"))
            guard = Guard(networks=networks_of("127.0.0.0/8"))
            web = await stack.enter_async_context(open_web(guard=guard, max_body_bytes=100_000))
            channel = await stack.enter_async_context(open_channel(broker or f"127.0.0.1:{free_port()}"))
            slots, clock = Slots(limit), ClockSync(own)
            proxies = Proxies(ProxyServiceStub(channel), holder="test")
            fetch = Fetch(
                bus=own,
                clock=clock,
                slots=slots,
                web=web,
                proxies=proxies,
                archive=Archive(pool, blobs),
                underway=Underway(own, FetchStarted),
                pulse=Pulse(own, service="fetcher", worker_id="test"),
                egress=Egress([], slots, Readiness()),
            )
            return Fetcher(slots, clock, proxies, fetch, own)

        yield Place(bus, site, await listen(bus), blobs, pool, make)


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


async def test_while_the_broker_is_away_a_required_proxy_holds_the_domain_and_a_preferred_one_does_not(
    place: Place,
) -> None:
    await tell_the_time(place.bus)
    fetcher = await place.make()
    required, preferred = place.order(task=1), place.order(task=2)
    required.proxy_policy = ProxyPolicy.PROXY_POLICY_REQUIRED
    preferred.proxy_policy = ProxyPolicy.PROXY_POLICY_PREFERRED
    async with fetcher.taking_orders():
        await place.send(required)
        back = await place.heard.one(FetchReturned, 1)
        assert (back.reason, back.hold_seconds) == (ReturnReason.RETURN_REASON_NO_PROXY, HOLD_SECONDS)
        assert place.site.asked == []
        await place.send(preferred)
        assert (await place.heard.one(PageFetched, 2)).proxy_id == 0


class Broker(ProxyServiceServicer):
    """Gives what it is told to give, one grant for every want, and keeps what is reported."""

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self.wants: list[Want] = []
        self.uses: list[Used] = []

    async def Lease(self, request: LeaseRequest, _context: object) -> LeaseResponse:  # noqa: N802
        self.wants += request.wants
        return LeaseResponse(grants=[self.grant] * len(request.wants))

    async def Report(self, request: ReportRequest, _context: object) -> ReportResponse:  # noqa: N802
        self.uses += request.uses
        return ReportResponse(taken=len(request.uses))


@asynccontextmanager
async def broker_server(broker: Broker) -> AsyncIterator[str]:
    server = grpc.aio.server()
    add_ProxyServiceServicer_to_server(broker, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def test_a_leased_proxy_is_used_and_reported(place: Place) -> None:
    """The site stands in for the proxy as well: it is asked for a whole address."""
    await tell_the_time(place.bus)
    order = place.order(task=1)
    order.url, order.domain = "http://93.184.216.34/p", "93.184.216.34"
    order.proxy_policy = ProxyPolicy.PROXY_POLICY_REQUIRED
    place.site.answers["http://93.184.216.34/p"] = reply(BOOTS)
    broker = Broker(Grant(lease_id=5, proxy_id=9, protocol="http", host="127.0.0.1", port=place.site.port))
    async with broker_server(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order)
            fact = await place.heard.one(PageFetched, 1)
    assert fact.proxy_id == 9
    assert [(want.domain, want.task_id, want.attempt) for want in broker.wants] == [("93.184.216.34", 1, 1)]
    assert [(used.lease_id, used.outcome) for used in broker.uses] == [(5, Outcome.OUTCOME_SUCCESS)]


async def test_a_lease_that_was_not_used_is_given_back_and_a_dead_proxy_blamed(place: Place) -> None:
    await tell_the_time(place.bus)
    late, dead = place.order(task=1, soon=-30), place.order(task=2)
    late.proxy_policy = dead.proxy_policy = ProxyPolicy.PROXY_POLICY_REQUIRED
    broker = Broker(Grant(lease_id=5, proxy_id=9, protocol="http", host="127.0.0.1", port=free_port()))
    async with broker_server(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(late)
            assert (await place.heard.one(FetchReturned, 1)).reason == ReturnReason.RETURN_REASON_LATE
            await place.send(dead)
            assert (await place.heard.one(FetchFailed, 2)).kind == FailureKind.FAILURE_KIND_PROXY
    assert [used.outcome for used in broker.uses] == [Outcome.OUTCOME_UNUSED, Outcome.OUTCOME_PROXY_FAILED]


async def test_a_broker_that_refuses_says_for_how_long(place: Place) -> None:
    await tell_the_time(place.bus)
    order = place.order(task=1)
    order.proxy_policy = ProxyPolicy.PROXY_POLICY_REQUIRED
    broker = Broker(Grant(refusal="cooling", retry_time=seconds_to_stamp(database_now() + 42)))
    async with broker_server(broker) as address:
        fetcher = await place.make(broker=address)
        async with fetcher.taking_orders():
            await place.send(order)
            back = await place.heard.one(FetchReturned, 1)
    assert back.reason == ReturnReason.RETURN_REASON_NO_PROXY
    assert 35 < back.hold_seconds <= 42
    assert place.site.asked == []
