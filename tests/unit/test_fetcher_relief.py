"""A fetcher that stops taking orders: for memory, for the network, for good."""

from __future__ import annotations

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, ReturnReason
from limpet.fetcher.egress import Egress
from limpet.fetcher.pressure import Limits, Pressure
from limpet.fetcher.relieve import EXIT_MEMORY, Relieve
from limpet.fetcher.settings import targets_of
from limpet.fetcher.slots import Slots
from limpet.kit.errors import CannotRecover
from limpet.kit.memory import Memory
from limpet.kit.ops import Readiness
from tests.support.servers import free_port

HOUR = 3600.0
SHARES = Limits(soft_share=0.8, hard_share=0.95)


@pytest.mark.parametrize(
    ("used", "before", "found"),
    [
        (799, Pressure.NONE, Pressure.NONE),
        (800, Pressure.NONE, Pressure.SOFT),
        (720, Pressure.SOFT, Pressure.SOFT),
        (719, Pressure.SOFT, Pressure.NONE),
        (950, Pressure.NONE, Pressure.HARD),
        (949, Pressure.HARD, Pressure.SOFT),
    ],
)
def test_f1_pressure_rises_at_its_limit_and_falls_only_well_below(used: int, before: Pressure, found: Pressure) -> None:
    assert SHARES.pressure(used, limit=1000, before=before) == found


def test_f1_of_a_share_and_a_number_of_bytes_the_lower_holds() -> None:
    limits = Limits(soft_share=0.8, hard_share=0.95, soft_bytes=500, hard_bytes=2000)
    assert limits.pressure(500, limit=1000, before=Pressure.NONE) == Pressure.SOFT
    assert limits.pressure(950, limit=1000, before=Pressure.NONE) == Pressure.HARD
    assert limits.pressure(1999, limit=0, before=Pressure.NONE) == Pressure.SOFT
    assert limits.pressure(2000, limit=0, before=Pressure.NONE) == Pressure.HARD
    assert SHARES.pressure(10**12, limit=0, before=Pressure.NONE) == Pressure.NONE, "nothing to compare with"


async def test_f1_above_the_soft_limit_nothing_is_taken_what_is_in_hand_finishes_and_then_it_goes_on() -> None:
    slots, used = Slots(8), [900]
    relieve = Relieve(slots, SHARES, lambda: Memory(used[0], 1000), seconds=10, every=0.01)
    holding, finish = asyncio.Event(), asyncio.Event()

    async def order() -> None:
        async with slots.hold():
            holding.set()
            await finish.wait()
            # The page is done, and its memory free.
            used[0] = 500

    working = asyncio.create_task(order())
    await holding.wait()
    with capture_logs() as logs:
        looking = asyncio.create_task(relieve.look())
        await asyncio.sleep(0)
        assert (slots.free(), slots.hindrance, "memory" in slots.paused) == (0, None, True)
        assert not looking.done()
        finish.set()
        await looking
        await relieve.look()
    assert (slots.free(), slots.paused) == (1, "")
    assert [entry["event"] for entry in logs] == ["memory_limit_reached", "memory_relieved"]
    await working


async def test_f1_memory_that_stays_above_the_limit_ends_the_process_with_its_code() -> None:
    for used in (900, 990):
        relieve = Relieve(Slots(8), SHARES, lambda used=used: Memory(used, 1000), seconds=0.05, every=0.01)  # type: ignore[misc]
        with pytest.raises(CannotRecover) as end:
            await asyncio.wait_for(relieve.run(), 5)
        assert end.value.code == EXIT_MEMORY == 71


async def test_f1_the_end_of_a_drain_cuts_off_what_runs_in_time_to_tell() -> None:
    slots = Slots(2)
    told: list[str | None] = []

    async def order(seconds: float) -> None:
        async with slots.hold():
            told.append(await slots.unless_cut(asyncio.sleep(seconds, "done")))

    tasks = [asyncio.create_task(order(0.01)), asyncio.create_task(order(HOUR))]
    await asyncio.sleep(0)
    started = time.monotonic()
    await slots.drain(0.4)
    assert time.monotonic() - started < 0.4
    await asyncio.gather(*tasks)
    assert told == ["done", None]


async def test_f1_a_cancel_that_no_drain_sent_is_a_cancel() -> None:
    slots = Slots(1)
    task = asyncio.create_task(slots.unless_cut(asyncio.sleep(HOUR)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_f11_a_network_without_any_target_pauses_gives_back_and_goes_on_by_itself() -> None:
    port, slots, readiness = free_port(), Slots(8), Readiness()
    readiness.started()
    egress = Egress([("127.0.0.1", port), ("127.0.0.1", free_port())], slots, readiness)
    woken = asyncio.create_task(slots.pause(HOUR))
    await asyncio.sleep(0)
    with capture_logs() as logs:
        assert "no target" in await egress.look()
        await asyncio.wait_for(woken, 5)
        assert (slots.free(), slots.hindrance) == (0, ReturnReason.RETURN_REASON_NO_NETWORK)
        assert "no target" in readiness.waiting_for["network"]
        assert await egress.explains(FailureKind.FAILURE_KIND_NETWORK)
        assert not await egress.explains(FailureKind.FAILURE_KIND_TOO_LARGE)
        async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port):
            assert await egress.look() == "", "one target is enough"
            assert (slots.free(), slots.hindrance, readiness.ready) == (1, None, True)
            assert not await egress.explains(FailureKind.FAILURE_KIND_NETWORK), "then it is the site"
    assert [entry["event"] for entry in logs] == ["network_lost", "network_back"]


async def test_f11_without_targets_nothing_is_concluded() -> None:
    slots = Slots(8)
    egress = Egress([], slots, Readiness())
    assert await egress.look() == ""
    assert not await egress.explains(FailureKind.FAILURE_KIND_NETWORK)
    assert slots.free() == 1


def test_f11_targets_are_hosts_with_ports() -> None:
    assert targets_of(" a.example:443, [2001:db8::1]:53 ,") == [("a.example", 443), ("2001:db8::1", 53)]
    for wrong in ("a.example", ":443", "a.example:0", "a.example:65536", "a.example:x"):
        with pytest.raises(ValueError, match="is not host:port"):
            targets_of(wrong)


async def test_f11_a_fetcher_without_a_network_takes_a_few_orders_now_and_then_to_give_them_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slots, now = Slots(100), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    slots.hold_off("network", "down", give_back=ReturnReason.RETURN_REASON_NO_NETWORK)
    assert [slots.free("high"), slots.free("normal")] == [0, 0]
    now[0] += 4.0
    assert [slots.free("high"), slots.free("high"), slots.free("normal")] == [3, 0, 3]
    now[0] += 3.9
    assert slots.free("normal") == 0
    slots.go_on("network")
    slots.hold_off("memory", "full")
    now[0] += 60.0
    assert [slots.free("high"), slots.free("high")] == [0, 0], "memory is no reason to give back"
