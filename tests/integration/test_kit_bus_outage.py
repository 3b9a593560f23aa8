"""NATS that is not there yet, goes away, or comes back with nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import nats.errors
import pytest

from limpet.contracts.events.v1.beat_pb2 import Beat, ErrorOccurred
from limpet.contracts.events.v1.fetch_pb2 import FetchFailed
from limpet.kit.bus import Bus, open_bus
from limpet.kit.delivery import Delivery
from limpet.kit.ops import Readiness
from limpet.kit.streams import CONSUMERS, HEALTH_ERRORS, STREAMS
from tests.support.parts import running
from tests.support.servers import NatsProcess, nats_process
from tests.support.waiting import until


@pytest.fixture
def server() -> Iterator[NatsProcess]:
    with nats_process() as server:
        yield server


async def test_a_bus_waits_for_nats_that_is_away_and_says_so(server: NatsProcess) -> None:
    readiness = Readiness()
    opened, close = asyncio.Event(), asyncio.Event()

    async def process() -> None:
        async with open_bus(server.url, name="test", readiness=readiness) as bus:
            await bus.publish(FetchFailed(task_id=1), key="1")
            opened.set()
            await close.wait()

    async def says_so() -> bool:
        return "nats" in readiness.waiting_for

    async with running(process()):
        await until(says_so)
        assert "refused" in readiness.waiting_for["nats"].lower()
        assert not opened.is_set()
        server.start()
        await asyncio.wait_for(opened.wait(), 15)
        assert "nats" not in readiness.waiting_for


async def test_readiness_follows_a_server_that_dies_and_comes_back(server: NatsProcess) -> None:
    server.start()
    readiness = Readiness()
    async with open_bus(server.url, name="test", readiness=readiness):
        assert "nats" not in readiness.waiting_for
        server.kill()

        async def away() -> bool:
            return "nats" in readiness.waiting_for

        await until(away)
        server.start()

        async def back() -> bool:
            return "nats" not in readiness.waiting_for

        await until(back, seconds=15)


async def test_publishing_and_consuming_go_on_by_themselves_after_the_store_was_wiped(server: NatsProcess) -> None:
    server.start()
    seen: set[int] = set()

    async def on_errors(delivery: Delivery) -> None:
        seen.update(record.task_id for record in delivery.records(ErrorOccurred))

    async def all_of(numbers: set[int]) -> None:
        async def there() -> bool:
            return numbers <= seen

        await until(there, seconds=20)

    async with open_bus(server.url, name="test") as bus, running(bus.consume(HEALTH_ERRORS, on_errors, slots=2)):
        await bus.record(ErrorOccurred(task_id=1))
        await all_of({1})
        server.kill()
        during = [asyncio.create_task(bus.record(ErrorOccurred(task_id=number))) for number in range(2, 12)]
        one = asyncio.create_task(bus.publish(FetchFailed(task_id=12), key="12"))
        done, _ = await asyncio.wait([*during, one], timeout=0.3)
        assert not done, "nobody may go on before a server has the message"
        server.wipe()
        server.start()
        await asyncio.wait_for(asyncio.gather(*during, one), 20)
        await bus.record(ErrorOccurred(task_id=13))
        await all_of({*range(1, 12), 13})
        await everything_is_there(bus)
        assert (await bus.client.jetstream().stream_info("PAGES")).state.messages == 1


async def test_publishing_alone_makes_the_streams_of_a_wiped_server_again(server: NatsProcess) -> None:
    server.start()
    async with open_bus(server.url, name="test") as bus:
        server.kill()
        server.wipe()
        server.start()
        await asyncio.wait_for(bus.publish(FetchFailed(task_id=1), key="1"), 20)
        await everything_is_there(bus)


async def test_consuming_alone_makes_the_streams_of_a_wiped_server_again(server: NatsProcess) -> None:
    server.start()
    heard = asyncio.Event()

    async def on_errors(_delivery: Delivery) -> None:
        heard.set()

    async with open_bus(server.url, name="test") as bus, running(bus.consume(HEALTH_ERRORS, on_errors, slots=2)):
        server.kill()
        server.wipe()
        server.start()

        async def published() -> bool:
            """Past the bus, which would make the stream itself."""
            try:
                await bus.client.jetstream().publish("error.occurred", b"", timeout=1)
            except (nats.errors.Error, OSError, TimeoutError):
                return False
            return True

        await until(published, seconds=15)
        await asyncio.wait_for(heard.wait(), 10)


async def everything_is_there(bus: Bus) -> None:
    js = bus.client.jetstream()
    for stream in STREAMS:
        assert (await js.stream_info(stream.name)).config.subjects == list(stream.subjects)
    for spec in CONSUMERS:
        config = (await js.consumer_info(spec.stream, spec.name)).config
        assert (config.ack_wait, config.max_deliver, config.filter_subjects or [config.filter_subject]) == (
            spec.ack_wait,
            spec.max_deliver,
            list(spec.subjects),
        )


async def test_many_processes_may_start_on_an_empty_server_at_once(server: NatsProcess) -> None:
    server.start()
    opened = 0
    all_open = asyncio.Event()

    async def process(name: str) -> None:
        nonlocal opened
        async with open_bus(server.url, name=name) as bus:
            opened += 1
            if opened == 5:
                all_open.set()
            await all_open.wait()
            await everything_is_there(bus)

    async with asyncio.timeout(20):
        await asyncio.gather(*(process(str(number)) for number in range(5)))


async def test_a_notice_while_nats_is_away_is_dropped_quietly(server: NatsProcess) -> None:
    server.start()
    async with open_bus(server.url, name="test") as bus:
        server.kill()

        async def away() -> bool:
            return not bus.client.is_connected

        await until(away)
        await asyncio.wait_for(bus.notify(Beat(worker_id="w"), suffix="fetcher"), 1)
