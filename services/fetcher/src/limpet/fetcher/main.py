"""The fetcher process: open things in order, hand them over, serve."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import psutil

from limpet.contracts.events.v1.fetch_pb2 import FetchStarted
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceStub
from limpet.fetcher.archive import Archive
from limpet.fetcher.broker import Broker
from limpet.fetcher.clocksync import ClockSync
from limpet.fetcher.egress import Egress
from limpet.fetcher.fetch import Fetch
from limpet.fetcher.proxies import Proxies
from limpet.fetcher.rate import Rate
from limpet.fetcher.relieve import Relieve
from limpet.fetcher.retention import Retention
from limpet.fetcher.settings import Settings
from limpet.fetcher.slots import Slots
from limpet.fetcher.web import open_web
from limpet.kit.beat import Pulse
from limpet.kit.blobs import Blobs
from limpet.kit.bus import open_bus
from limpet.kit.log import setup_logging
from limpet.kit.memory import read_memory
from limpet.kit.migrate import migrate
from limpet.kit.ops import Readiness
from limpet.kit.pg import open_pool, watch_pool
from limpet.kit.rpc import open_channel
from limpet.kit.selfcheck import Selfcheck
from limpet.kit.service import run_service, serve, starting
from limpet.kit.settings import load
from limpet.kit.streams import FETCHER_HIGH, FETCHER_NORMAL
from limpet.kit.underway import Underway


async def main(settings: Settings, readiness: Readiness) -> None:
    dsn = settings.pg_dsn.get_secret_value()
    async with (
        open_pool(dsn, size=settings.pool_size, readiness=readiness) as pool,
        open_bus(
            settings.nats_url,
            name="fetcher",
            replicas=settings.stream_replicas,
            readiness=readiness,
            ca_file=settings.nats_ca_file,
        ) as bus,
        open_channel(settings.broker_address) as channel,
        open_web(
            guard=settings.guard, max_body_bytes=settings.max_body_bytes, rate=Rate(settings.min_bytes_per_second)
        ) as web,
    ):
        await migrate(dsn, "limpet.fetcher")
        slots = Slots(settings.concurrency)
        clock = ClockSync(bus, readiness=readiness)
        egress = Egress(settings.targets, slots, readiness)
        process = psutil.Process()
        underway = Underway(bus, FetchStarted)
        broker = Broker(ProxyServiceStub(channel), holder=settings.worker_id)
        proxies = Proxies(broker)
        pulse = Pulse(
            bus,
            service="fetcher",
            worker_id=settings.worker_id,
            capacity=settings.concurrency,
            breakers=[broker.breaker],
        )
        pulse.in_hand = lambda: slots.in_hand
        blobs = Blobs.open(settings.page_store)
        days = settings.retention_pages_days
        retention = Retention(pool, blobs, timedelta(days=days) if days else None)
        pulse.paused = lambda: slots.paused
        fetch = Fetch(
            bus=bus,
            clock=clock,
            slots=slots,
            web=web,
            proxies=proxies,
            archive=Archive(pool, blobs),
            underway=underway,
            pulse=pulse,
            egress=egress,
            worker_id=settings.worker_id,
        )
        await clock.burst()

        async def drain() -> None:
            slots.stop()
            await bus.stop_pulling()
            await slots.drain(settings.drain_seconds)
            await bus.drain(1)
            await proxies.drain()

        await serve(
            readiness=readiness,
            drain=drain,
            watch=watch_pool(pool, readiness),
            selfcheck=Selfcheck(
                bus, pool, readiness, after=settings.staleness_threshold_seconds, network=egress.look
            ).run(),
            pulse=pulse.run(),
            clock=clock.run(),
            retention=retention.run(),
            network=egress.run(),
            memory=Relieve(
                slots, settings.memory_limits, lambda: read_memory(process), seconds=settings.drain_seconds
            ).run(),
            underway=underway.run(),
            high=bus.consume(
                FETCHER_HIGH, fetch.on_fetch_requested, slots=settings.concurrency, free=partial(slots.free, "high")
            ),
            normal=bus.consume(
                FETCHER_NORMAL, fetch.on_fetch_requested, slots=settings.concurrency, free=partial(slots.free, "normal")
            ),
        )


def run() -> None:
    settings = load(Settings)
    setup_logging("fetcher", settings.log_level)
    readiness = Readiness()
    run_service(
        starting(readiness, host=settings.ops_host, port=settings.ops_port, main=lambda: main(settings, readiness))
    )


if __name__ == "__main__":
    run()
