"""Records that gather into messages: when they go, and who hears of it."""

from __future__ import annotations

import asyncio
import time

import pytest

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.kit import batch
from limpet.kit.batch import Batcher
from tests.support.waiting import until

NEVER = 3600.0


class Wire:
    """Where batches go. It can be held up, and it can fail."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.error: Exception | None = None

    async def send(self, data: bytes) -> None:
        await self.open.wait()
        if self.error is not None:
            raise self.error
        self.batches.append(list(Batch.FromString(data).records))


async def add_all(batcher: Batcher, records: list[bytes]) -> None:
    await asyncio.gather(*(batcher.add(record) for record in records))


async def test_a_full_batch_goes_at_once_and_in_order() -> None:
    wire = Wire()
    batcher = Batcher(wire.send, linger=NEVER)
    records = [str(number).encode() for number in range(2 * batch.MAX_RECORDS)]
    async with asyncio.timeout(5):
        await add_all(batcher, records)
    assert wire.batches == [records[: batch.MAX_RECORDS], records[batch.MAX_RECORDS :]]


async def test_a_batch_goes_before_it_would_grow_too_large() -> None:
    wire = Wire()
    batcher = Batcher(wire.send, linger=NEVER)
    half = b"x" * (batch.MAX_BYTES // 2)
    waiting = [asyncio.create_task(batcher.add(record)) for record in (half, half, b"one more")]
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting[:2])
    assert wire.batches == [[half, half]]
    assert not waiting[2].done()
    waiting[2].cancel()


async def test_a_record_over_the_limit_goes_alone() -> None:
    wire = Wire()
    batcher = Batcher(wire.send, linger=0.01)
    big = b"x" * (batch.MAX_BYTES + 1)
    await add_all(batcher, [b"before", big, b"after"])
    assert wire.batches == [[b"before"], [big], [b"after"]]


async def test_a_few_records_go_together_after_the_linger() -> None:
    wire = Wire()
    batcher = Batcher(wire.send, linger=0.05)
    started = time.monotonic()
    await add_all(batcher, [b"a", b"b", b"c"])
    assert wire.batches == [[b"a", b"b", b"c"]]
    assert time.monotonic() - started >= 0.045


async def test_a_caller_returns_only_when_its_batch_has_been_sent() -> None:
    wire = Wire()
    wire.open.clear()
    batcher = Batcher(wire.send, linger=0)
    first = asyncio.create_task(batcher.add(b"first"))
    done, _ = await asyncio.wait([first], timeout=0.1)
    assert not done
    wire.open.set()
    await asyncio.wait_for(first, 5)


async def test_the_next_batch_does_not_wait_for_the_one_before() -> None:
    wire = Wire()
    sent: list[bytes] = []
    held = asyncio.Event()

    async def send(data: bytes) -> None:
        (record,) = Batch.FromString(data).records
        if record == b"slow":
            await held.wait()
        sent.append(record)

    batcher = Batcher(send, linger=0)
    slow = asyncio.create_task(batcher.add(b"slow"))
    await asyncio.wait([slow], timeout=0.02)
    await asyncio.wait_for(batcher.add(b"quick"), 5)
    held.set()
    await slow
    assert sent == [b"quick", b"slow"]
    assert wire.batches == []


async def test_a_failed_send_reaches_every_caller_and_the_next_batch_is_fresh() -> None:
    wire = Wire()
    wire.error = ConnectionError("gone")
    batcher = Batcher(wire.send, linger=0)
    ends = await asyncio.gather(*(batcher.add(b"x") for _ in range(5)), return_exceptions=True)
    assert [repr(end) for end in ends] == ["ConnectionError('gone')"] * 5
    wire.error = None
    await batcher.add(b"y")
    assert wire.batches == [[b"y"]]


@pytest.mark.parametrize("who", [0, 1, 2])
async def test_a_cancelled_caller_does_not_take_the_batch_from_the_others(who: int) -> None:
    wire = Wire()
    batcher = Batcher(wire.send, linger=0.02)
    callers = [asyncio.create_task(batcher.add(str(number).encode())) for number in range(3)]
    await asyncio.sleep(0)
    callers[who].cancel()
    ends = await asyncio.gather(*callers, return_exceptions=True)
    assert [isinstance(end, asyncio.CancelledError) for end in ends] == [number == who for number in range(3)]
    assert wire.batches == [[b"0", b"1", b"2"]]


async def test_a_batch_whose_callers_are_all_gone_is_sent_and_its_failure_disturbs_nobody() -> None:
    wire = Wire()
    batcher = Batcher(wire.send, linger=0.01)
    alone = asyncio.create_task(batcher.add(b"orphan"))
    await asyncio.sleep(0)
    alone.cancel()

    async def sent() -> bool:
        return wire.batches == [[b"orphan"]]

    await until(sent)
