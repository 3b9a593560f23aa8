"""All that a test needs to send orders to a whole fetcher and see what comes of them, on real NATS and PostgreSQL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from limpet.contracts.events.v1.fetch_pb2 import (
    ClockReply,
    ClockRequest,
    FetchRequested,
    FetchStarted,
    OrderKind,
    ProxyPolicy,
)
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import (
    ProxyServiceStub,
)
from limpet.fetcher.archive import Archive
from limpet.fetcher.broker import Broker
from limpet.fetcher.clocksync import ClockSync
from limpet.fetcher.egress import Egress
from limpet.fetcher.fetch import Fetch
from limpet.fetcher.proxies import Proxies
from limpet.fetcher.rate import Rate
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
    channel: grpc.aio.Channel
    broker: Broker
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


@asynccontextmanager
async def fetching_place(bus: Bus, *, nats_url: str, pool: Pool, pages: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(rough_site())
        site.answers["/p"] = reply(BOOTS, content_type="text/html; charset=utf-8")
        blobs = Blobs.open(pages.as_uri())

        async def make(*, broker: str = "", limit: int = 8, rate: Rate | None = None) -> Fetcher:
            own = await stack.enter_async_context(open_bus(nats_url, name="fetcher"))
            guard = Guard(networks=networks_of("127.0.0.0/8"))
            web = await stack.enter_async_context(open_web(guard=guard, max_body_bytes=100_000, rate=rate))
            channel = await stack.enter_async_context(open_channel(broker or f"127.0.0.1:{free_port()}"))
            slots, clock = Slots(limit), ClockSync(own)
            calls = Broker(ProxyServiceStub(channel), holder="test")
            proxies = Proxies(calls)
            fetch = Fetch(
                bus=own,
                clock=clock,
                slots=slots,
                web=web,
                proxies=proxies,
                archive=Archive(pool, blobs),
                underway=Underway(own, FetchStarted),
                pulse=Pulse(own, service="fetcher", worker_id="test", breakers=[calls.breaker]),
                egress=Egress([], slots, Readiness()),
                worker_id="test",
            )
            return Fetcher(slots, clock, channel, calls, proxies, fetch, own)

        yield Place(bus, site, await listen(bus), blobs, pool, make)
