"""Publishing and consuming on a real JetStream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
import structlog
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.contracts.events.v1.beat_pb2 import Beat, ErrorOccurred
from limpet.contracts.events.v1.fetch_pb2 import FetchFailed
from limpet.kit import tracing
from limpet.kit.bus import Bus, open_bus
from limpet.kit.delivery import Delivery
from limpet.kit.errors import Permanent, Retryable
from limpet.kit.streams import FACTS, HEALTH_ERRORS, ConsumerSpec
from tests.support.parts import running
from tests.support.waiting import until


async def messages_in(bus: Bus, stream: str) -> int:
    return (await bus.client.jetstream().stream_info(stream)).state.messages


async def unacked(bus: Bus, spec: ConsumerSpec) -> tuple[int, int]:
    """Handed out and not settled; not handed out yet."""
    info = await bus.client.jetstream().consumer_info(spec.stream, spec.name)
    return info.num_ack_pending or 0, info.num_pending or 0


async def make_consumer(bus: Bus, *, ack_wait: float = 30, max_deliver: int = 20) -> ConsumerSpec:
    """One that only the test knows, beside the platform's own."""
    spec = ConsumerSpec("test", "PAGES", ("crawl.fetch.failed",), ack_wait=ack_wait, max_deliver=max_deliver)
    await bus.client.jetstream().add_consumer(
        spec.stream,
        ConsumerConfig(
            durable_name=spec.name,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=spec.ack_wait,
            max_deliver=spec.max_deliver,
            filter_subjects=list(spec.subjects),
        ),
    )
    return spec


async def send(bus: Bus, *numbers: int) -> None:
    await asyncio.gather(*(bus.publish(FetchFailed(task_id=number), key=f"{number}") for number in numbers))


def number_of(delivery: Delivery) -> int:
    return delivery.message(FetchFailed).task_id


async def the_dead(bus: Bus, consumer: str) -> Msg:
    """The one letter in the dead stream of a consumer, once it is there."""

    async def there() -> bool:
        return await messages_in(bus, "DEAD") == 1

    await until(there)
    raw = await bus.client.jetstream().get_last_msg("DEAD", f"dead.{consumer}")
    return Msg(bus.client, subject=raw.subject or "", data=raw.data or b"", headers=raw.headers)


async def settled(bus: Bus, spec: ConsumerSpec) -> None:
    async def nothing_left() -> bool:
        return await unacked(bus, spec) == (0, 0)

    await until(nothing_left)


async def test_a_stream_of_an_older_version_takes_new_subjects_and_keeps_what_it_holds(nats_url: str) -> None:
    async with open_bus(nats_url, name="older") as older:
        js = older.client.jetstream()
        await js.publish("domain.changed.1", b"kept")
        there = (await js.stream_info("FACTS")).config
        await js.update_stream(there, subjects=["domain.changed.*", "older.only.*"])
    async with open_bus(nats_url, name="newer") as newer:
        info = await newer.client.jetstream().stream_info("FACTS")
        assert set(FACTS.subjects) | {"older.only.*"} == set(info.config.subjects or ())
        assert info.state.messages == 1


async def test_a_message_with_a_repeated_key_is_stored_once(bus: Bus) -> None:
    for _ in range(3):
        await bus.publish(FetchFailed(task_id=1), key="fetch-settled:1:1")
    await bus.publish(FetchFailed(task_id=1), key="fetch-settled:1:2")
    assert await messages_in(bus, "PAGES") == 2


async def test_many_records_travel_in_few_messages_and_none_is_lost(bus: Bus) -> None:
    seen: list[int] = []

    async def on_errors(delivery: Delivery) -> None:
        seen.extend(record.task_id for record in delivery.records(ErrorOccurred))

    await asyncio.gather(*(bus.record(ErrorOccurred(task_id=number)) for number in range(1000)))
    # Every caller has returned, so the server has them all.
    assert 10 <= await messages_in(bus, "ERRORS") <= 20
    async with running(bus.consume(HEALTH_ERRORS, on_errors, slots=4)):
        await settled(bus, HEALTH_ERRORS)
    assert sorted(seen) == list(range(1000))


async def test_one_record_alone_is_with_the_server_when_its_caller_goes_on(bus: Bus) -> None:
    for number in range(3):
        await bus.record(ErrorOccurred(task_id=number))
        assert await messages_in(bus, "ERRORS") == number + 1


async def test_records_of_two_kinds_do_not_mix(bus: Bus) -> None:
    await asyncio.gather(bus.record(ErrorOccurred(task_id=1)), bus.record(FetchFailed(task_id=2)))
    raw = await bus.client.jetstream().get_last_msg("PAGES", "crawl.fetch.failed")
    (record,) = Batch.FromString(raw.data or b"").records
    assert FetchFailed.FromString(record).task_id == 2
    assert await messages_in(bus, "ERRORS") == 1


async def test_what_was_handled_is_acknowledged_and_never_comes_again(bus: Bus) -> None:
    spec = await make_consumer(bus, ack_wait=0.5)
    seen: list[int] = []

    async def on_failed(delivery: Delivery) -> None:
        seen.append(number_of(delivery))

    await send(bus, *range(20))
    async with running(bus.consume(spec, on_failed, slots=5)):
        await settled(bus, spec)
    assert sorted(seen) == list(range(20))
    info = await bus.client.jetstream().consumer_info(spec.stream, spec.name)
    assert info.num_redelivered == 0
    assert info.ack_floor is not None
    assert info.ack_floor.consumer_seq == 20


async def test_a_retryable_failure_comes_again_after_a_delay(bus: Bus) -> None:
    spec = await make_consumer(bus)
    times: list[float] = []
    delivered: list[tuple[int, bool]] = []

    async def on_failed(delivery: Delivery) -> None:
        times.append(time.monotonic())
        delivered.append((delivery.delivered, delivery.redelivered))
        if len(times) < 3:
            raise Retryable("not yet")

    await send(bus, 1)
    async with running(bus.consume(spec, on_failed, slots=1)):
        await settled(bus, spec)
    assert delivered == [(1, False), (2, True), (3, True)]
    # 0.2 s and 0.4 s, each 25 % more or less.
    assert 0.14 < times[1] - times[0] < 2
    assert 0.29 < times[2] - times[1] < 3
    assert await messages_in(bus, "DEAD") == 0


async def test_an_unknown_failure_is_tried_again_and_buried_in_the_end(bus: Bus) -> None:
    spec = await make_consumer(bus, max_deliver=3)
    calls = 0

    async def on_failed(_delivery: Delivery) -> None:
        nonlocal calls
        calls += 1
        raise ZeroDivisionError("by\nzero")

    await bus.publish(FetchFailed(task_id=7), key="7", traceparent=tracing.new_traceparent(sampled=True))
    async with running(bus.consume(spec, on_failed, slots=2)):
        dead = await the_dead(bus, spec.name)
        await settled(bus, spec)
    assert calls == 3
    assert FetchFailed.FromString(dead.data).task_id == 7
    assert dead.headers is not None
    assert dead.headers["Limpet-Subject"] == "crawl.fetch.failed"
    assert dead.headers["Limpet-Consumer"] == spec.name
    assert dead.headers["Limpet-Error"] == "ZeroDivisionError: by zero"
    assert tracing.trace_id_of(dead.headers[tracing.HEADER])


async def test_a_permanent_failure_is_buried_at_once(bus: Bus) -> None:
    spec = await make_consumer(bus)
    calls = 0

    async def on_failed(_delivery: Delivery) -> None:
        nonlocal calls
        calls += 1
        raise Permanent("no such thing")

    await send(bus, 1)
    async with running(bus.consume(spec, on_failed, slots=1)):
        dead = await the_dead(bus, spec.name)
        await settled(bus, spec)
    assert calls == 1
    assert (dead.headers or {})["Limpet-Error"] == "Permanent: no such thing"


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("ünï", r"Permanent: \xfcn\xef"),
        ("two\r\nLimpet-Consumer: lines", "Permanent: two Limpet-Consumer: lines"),
        ("nul\x00", "Permanent: nul\x00"),
        ("", "Permanent:"),
        ("x" * 5000, "Permanent: " + "x" * 489),
    ],
    ids=["letters", "lines", "nul", "empty", "long"],
)
async def test_a_letter_is_buried_whatever_its_error_says(bus: Bus, text: str, header: str) -> None:
    spec = await make_consumer(bus)

    async def on_failed(_delivery: Delivery) -> None:
        raise Permanent(text)

    await send(bus, 1)
    async with running(bus.consume(spec, on_failed, slots=1)):
        dead = await the_dead(bus, spec.name)
        await settled(bus, spec)
    assert (dead.headers or {})["Limpet-Error"] == header
    assert (dead.headers or {})["Limpet-Consumer"] == spec.name
    assert FetchFailed.FromString(dead.data).task_id == 1


@pytest.mark.parametrize(
    "read", [lambda d: d.message(FetchFailed), lambda d: d.records(FetchFailed)], ids=["message", "records"]
)
async def test_bytes_that_are_no_message_are_buried_and_do_not_stop_the_next(
    bus: Bus, read: Callable[[Delivery], object]
) -> None:
    spec = await make_consumer(bus)
    good = asyncio.Event()

    async def on_failed(delivery: Delivery) -> None:
        read(delivery)
        good.set()

    await bus.client.jetstream().publish("crawl.fetch.failed", b"\xff\xff\xff\xff")
    await bus.client.jetstream().publish("crawl.fetch.failed", b"")
    async with running(bus.consume(spec, on_failed, slots=1)):
        dead = await the_dead(bus, spec.name)
        await asyncio.wait_for(good.wait(), 5)
    assert dead.data == b"\xff\xff\xff\xff"
    assert (dead.headers or {})["Limpet-Error"].startswith("Undecodable: crawl.fetch.failed")


async def test_no_more_messages_are_in_hand_than_there_are_slots(bus: Bus) -> None:
    spec = await make_consumer(bus)
    in_hand = most = done = 0

    async def on_failed(delivery: Delivery) -> None:
        nonlocal in_hand, most, done
        in_hand += 1
        most = max(most, in_hand)
        # They end one by one, so that slots are refilled while others are taken.
        await asyncio.sleep(0.01 * (number_of(delivery) % 7))
        in_hand -= 1
        done += 1

    await send(bus, *range(40))
    async with running(bus.consume(spec, on_failed, slots=4)):
        await settled(bus, spec)
    assert (most, done) == (4, 40)


async def test_a_slow_message_does_not_hold_up_the_other_slots(bus: Bus) -> None:
    spec = await make_consumer(bus)
    release, seen = asyncio.Event(), set[int]()

    async def on_failed(delivery: Delivery) -> None:
        if number_of(delivery) == 0:
            await release.wait()
        seen.add(number_of(delivery))

    await send(bus, 0)
    await send(bus, *range(1, 31))
    async with running(bus.consume(spec, on_failed, slots=3)):

        async def all_others() -> bool:
            return seen == set(range(1, 31))

        await until(all_others)
        release.set()
        await settled(bus, spec)
    assert 0 in seen


async def test_a_consumer_can_say_itself_how_many_it_takes(bus: Bus) -> None:
    spec = await make_consumer(bus)
    room = 3
    seen: list[int] = []

    async def on_failed(delivery: Delivery) -> None:
        nonlocal room
        room -= 1
        seen.append(number_of(delivery))

    await send(bus, *range(10))
    async with running(bus.consume(spec, on_failed, slots=10, free=lambda: room)):

        async def three_acknowledged() -> bool:
            return await unacked(bus, spec) == (0, 7)

        await until(three_acknowledged)
    assert len(seen) == 3


async def test_long_work_keeps_its_message(bus: Bus) -> None:
    spec = await make_consumer(bus, ack_wait=0.3)
    calls = 0

    async def on_failed(_delivery: Delivery) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(1.2)

    await send(bus, 1)
    async with running(bus.consume(spec, on_failed, slots=2)):
        await settled(bus, spec)
    assert calls == 1


async def test_a_message_whose_holder_dies_goes_to_another(bus: Bus) -> None:
    spec = await make_consumer(bus, ack_wait=0.3)
    began, done = asyncio.Event(), asyncio.Event()

    async def hang(_delivery: Delivery) -> None:
        began.set()
        await asyncio.Event().wait()

    async def finish(_delivery: Delivery) -> None:
        done.set()

    await send(bus, 1)
    async with running(bus.consume(spec, hang, slots=1)):
        await asyncio.wait_for(began.wait(), 5)
    async with running(bus.consume(spec, finish, slots=1)):
        await asyncio.wait_for(done.wait(), 5)
        await settled(bus, spec)


async def test_two_consumers_of_one_name_share_the_work(bus: Bus) -> None:
    spec = await make_consumer(bus)
    seen: list[int] = []

    async def on_failed(delivery: Delivery) -> None:
        seen.append(number_of(delivery))

    await send(bus, *range(30))
    async with running(bus.consume(spec, on_failed, slots=2)), running(bus.consume(spec, on_failed, slots=2)):
        await settled(bus, spec)
    assert sorted(seen) == list(range(30))


async def test_a_trace_goes_with_a_message_into_its_handler_and_its_log_lines(bus: Bus) -> None:
    spec = await make_consumer(bus)
    traces: list[str] = []

    async def on_failed(_delivery: Delivery) -> None:
        structlog.get_logger().info("at_work")
        traces.append(tracing.current())
        # What a handler publishes goes on in the same trace.
        if len(traces) == 1:
            await bus.publish(FetchFailed(task_id=2), key="2")

    parent = tracing.new_traceparent(sampled=True)
    with tracing.use(parent):
        await send(bus, 1)
    raw = await bus.client.jetstream().get_last_msg("PAGES", "crawl.fetch.failed")
    assert tracing.trace_id_of((raw.headers or {})[tracing.HEADER]) == tracing.trace_id_of(parent)
    with capture_logs(processors=[merge_contextvars]) as lines:
        async with running(bus.consume(spec, on_failed, slots=1)):

            async def both() -> bool:
                return len(traces) == 2

            await until(both)
    assert {tracing.trace_id_of(one) for one in traces} == {tracing.trace_id_of(parent)}
    assert [line["trace_id"] for line in lines if line["event"] == "at_work"] == [tracing.trace_id_of(parent)] * 2


async def test_a_message_without_a_trace_is_handled_in_none(bus: Bus) -> None:
    spec = await make_consumer(bus)
    traces: list[str] = []

    async def on_failed(_delivery: Delivery) -> None:
        traces.append(tracing.current())

    await send(bus, 1)
    async with running(bus.consume(spec, on_failed, slots=1)):
        await settled(bus, spec)
    assert traces == [""]


async def test_a_notice_is_heard_and_a_failing_listener_hears_the_next(bus: Bus) -> None:
    heard: list[str] = []

    async def on_beat(data: bytes) -> None:
        beat = Beat.FromString(data)
        heard.append(beat.worker_id)
        if len(heard) == 1:
            raise ZeroDivisionError

    await bus.subscribe("beat.*", on_beat)
    for worker in ("one", "two"):
        await bus.notify(Beat(worker_id=worker), suffix="fetcher")

    async def both() -> bool:
        return heard == ["one", "two"]

    await until(both)


async def test_a_request_is_answered_or_fails_in_a_way_that_can_be_tried_again(bus: Bus) -> None:
    async def answer(data: bytes) -> bytes:
        return data[::-1]

    await bus.subscribe("clock.read", answer, queue="one")
    assert await bus.request("clock.read", b"abc", timeout=2) == b"cba"
    with pytest.raises(Retryable, match=r"no answer on nobody\.home"):
        await bus.request("nobody.home", b"", timeout=2)


async def test_looking_for_streams_again_changes_nothing_and_brings_back_what_is_missing(bus: Bus) -> None:
    js = bus.client.jetstream()
    await send(bus, 1)
    await js.delete_stream("ERRORS")

    async def made_again() -> bool:
        await bus.ensure()
        try:
            await js.consumer_info("ERRORS", HEALTH_ERRORS.name)
        except NotFoundError:
            return False
        return True

    await until(made_again)
    assert await messages_in(bus, "PAGES") == 1
