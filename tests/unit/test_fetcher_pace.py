"""Starts are never closer than the delay, whatever the clocks do: DESIGN "Politeness"."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.fetcher.clocksync import DRIFT, KEPT, MAX_AGE, Readings, Sample, sample_of
from limpet.fetcher.orders import LATE, wait_of
from limpet.fetcher.slots import Slots
from limpet.kit.gather import Gather
from limpet.scheduler.politeness import slot_tolerance

HOUR = 3600.0
# Seconds are compared after sums of large and small ones.
TINY = 1e-6


@pytest.mark.parametrize(
    ("now", "error", "wait"),
    [
        (90.0, 0.0, 10.0),
        (100.0, 0.0, 0.0),
        (101.0, 0.0, 0.0),
        (102.0, 0.0, 0.0),
        (102.1, 0.0, LATE),
        # The error narrows the window from both sides.
        (100.0, 0.5, 0.5),
        (100.5, 0.5, 0.0),
        (101.5, 0.5, 0.0),
        (101.6, 0.5, LATE),
        # As wide as the window: one moment is left. Wider: never.
        (100.0, 1.0, 1.0),
        (101.0, 1.0, 0.0),
        (101.0, 1.001, LATE),
        (0.0, 1.001, LATE),
        (101.0, float("inf"), LATE),
    ],
)
def test_an_order_waits_for_its_window_less_the_error_of_the_clock(
    now: float, error: float, wait: float | None
) -> None:
    assert wait_of(not_before=100.0, start_by=102.0, now=now, error=error) == wait


@settings(deadline=None, max_examples=200)
@given(
    delay=st.floats(0.01, 120),
    arrivals=st.lists(
        st.tuples(st.floats(-2, 2), st.floats(0, 0.2), st.floats(-1, 1), st.floats(0, 0.05)), min_size=2, max_size=20
    ),
)
def test_two_starts_are_never_closer_than_the_delay(
    delay: float, arrivals: list[tuple[float, float, float, float]]
) -> None:
    """Each order is held by a fetcher of its own, whose clock is wrong by any share of the error it knows of."""
    tolerance = slot_tolerance(delay)
    starts = []
    for number, (early, error, share, oversleep) in enumerate(arrivals):
        slot = HOUR + number * (delay + tolerance)
        window = {"not_before": slot, "start_by": slot + tolerance}
        wrong = share * error
        true = slot + early * delay
        wait = wait_of(**window, now=true + wrong, error=error)
        if wait:
            # It sleeps, wakes up late, and looks again: only then does it start.
            true += wait + oversleep
            wait = wait_of(**window, now=true + wrong, error=error)
        if wait == 0.0:
            assert slot - TINY <= true <= slot + tolerance + TINY
            starts.append(true)
    assert all(late - early >= delay - TINY for early, late in pairwise(starts))


@settings(deadline=None, max_examples=100)
@given(st.floats(0, 1e5), st.floats(0, 10), st.floats(0.0001, 100), st.floats(0, 1e5))
def test_an_error_wider_than_the_window_never_starts(not_before: float, width: float, more: float, now: float) -> None:
    assert wait_of(not_before=not_before, start_by=not_before + width, now=now, error=width / 2 + more) is LATE


@settings(deadline=None, max_examples=200)
@given(
    offset=st.floats(-1e6, 1e6),
    drift=st.floats(-DRIFT, DRIFT),
    reads=st.lists(st.tuples(st.floats(0, 5), st.floats(0, 0.5), st.floats(0, 1)), min_size=1, max_size=40),
    after=st.floats(0, 60),
)
def test_the_true_time_always_lies_within_the_error(
    offset: float, drift: float, reads: list[tuple[float, float, float]], after: float
) -> None:
    def database(steady: float) -> float:
        return offset + steady * (1 + drift)

    readings, steady = Readings(), 0.0
    for pause, trip, share in reads:
        asked = steady + pause
        steady = asked + trip
        readings.add(sample_of(asked=asked, answered=steady, database=database(asked + share * trip)))
    steady += after
    now, error = readings.now(steady)
    assert abs(now - database(steady)) <= error + DRIFT + TINY


def test_without_a_reading_the_error_is_infinite_and_nothing_is_fresh() -> None:
    readings = Readings()
    assert readings.now(5.0)[1] == float("inf")
    assert not readings.fresh(5.0)


def test_the_quickest_reading_is_believed_until_it_has_aged_past_a_newer_one() -> None:
    readings = Readings()
    readings.add(Sample(at=0.0, offset=100.0, error=0.010))
    readings.add(Sample(at=2.0, offset=100.005, error=0.001))
    readings.add(Sample(at=4.0, offset=99.99, error=0.050))
    assert readings.now(4.0) == pytest.approx((104.005, 0.001 + 2 * DRIFT))
    for number in range(KEPT):
        readings.add(Sample(at=6.0 + 2 * number, offset=100.0, error=0.030))
    now, error = readings.now(6.0 + 2 * KEPT)
    assert now == pytest.approx(106.0 + 2 * KEPT)
    assert 0.030 <= error <= 0.031


def test_a_reading_is_fresh_for_half_a_minute_and_its_error_grows_meanwhile() -> None:
    readings = Readings()
    readings.add(Sample(at=10.0, offset=0.0, error=0.001))
    assert readings.fresh(10.0 + MAX_AGE - 0.01)
    assert not readings.fresh(10.0 + MAX_AGE)
    assert readings.now(20.0)[1] == pytest.approx(0.001 + 10 * DRIFT)


def test_after_a_jump_of_either_clock_the_newest_reading_is_believed_at_once() -> None:
    """The database failed over, or our machine slept: what was read before is no longer true, however exact it was."""
    readings = Readings()
    for number in range(5):
        readings.add(Sample(at=float(number), offset=100.0, error=0.0001))
    readings.add(Sample(at=6.0, offset=700.0, error=0.05))
    assert readings.now(6.0) == pytest.approx((706.0, 0.05))


async def test_a_drain_wakes_what_waits_lets_what_runs_finish_and_takes_nothing_more() -> None:
    slots = Slots(3)
    finish = asyncio.Event()
    ended: list[str] = []

    async def waits() -> None:
        async with slots.hold():
            await slots.pause(HOUR)
            ended.append("woken")

    async def runs() -> None:
        async with slots.hold():
            await finish.wait()
            ended.append("finished")

    tasks = [asyncio.create_task(waits()), asyncio.create_task(runs())]
    await asyncio.sleep(0)
    assert (slots.in_hand, slots.free()) == (2, 1)
    draining = asyncio.create_task(slots.drain(10))
    await tasks[0]
    assert (slots.free(), slots.in_hand, draining.done()) == (0, 1, False)
    await slots.pause(HOUR)
    finish.set()
    await draining
    assert (ended, slots.in_hand) == (["woken", "finished"], 0)
    await tasks[1]


async def test_a_drain_gives_up_on_what_does_not_end() -> None:
    slots = Slots(1)
    async with slots.hold():
        async with asyncio.timeout(5):
            await slots.drain(0.01)
        assert slots.in_hand == 1


async def test_things_of_one_moment_are_handled_together_and_everyone_gets_their_own_answer() -> None:
    batches: list[list[int]] = []

    async def double(things: Sequence[int]) -> list[int]:
        batches.append(list(things))
        return [2 * thing for thing in batches[-1]]

    gather: Gather[int, int] = Gather(double, linger=0.005, most=3)
    assert await asyncio.gather(*(gather.add(n) for n in range(7))) == [0, 2, 4, 6, 8, 10, 12]
    assert batches == [[0, 1, 2], [3, 4, 5], [6]]


async def test_trouble_with_a_batch_reaches_every_caller_and_not_the_next_batch() -> None:
    broken = [True]

    async def handle(things: Sequence[int]) -> list[int]:
        if broken[0]:
            raise OSError("away")
        return list(things)

    gather: Gather[int, int] = Gather(handle, linger=0.001)
    found = await asyncio.gather(gather.add(1), gather.add(2), return_exceptions=True)
    assert [type(error) for error in found] == [OSError, OSError]
    broken[0] = False
    assert await gather.add(3) == 3


async def test_one_callers_cancellation_does_not_take_the_batch_from_the_others() -> None:
    go = asyncio.Event()

    async def handle(things: Sequence[int]) -> list[int]:
        await go.wait()
        return list(things)

    gather: Gather[int, int] = Gather(handle, linger=0)
    leaver, stayer = asyncio.create_task(gather.add(1)), asyncio.create_task(gather.add(2))
    await asyncio.sleep(0.01)
    leaver.cancel()
    await asyncio.wait([leaver])
    go.set()
    assert await stayer == 2
    assert leaver.cancelled()


async def test_a_batch_holds_what_its_things_weigh_and_leaves_out_who_is_gone_before_it_begins() -> None:
    batches: list[list[int]] = []
    go = asyncio.Event()

    async def handle(things: Sequence[int]) -> list[int]:
        batches.append(list(things))
        await go.wait()
        return list(things)

    gather: Gather[int, int] = Gather(handle, linger=0, most=10, at_once=1, weigh=lambda thing: thing)
    asked = [asyncio.create_task(gather.add(weight)) for weight in (20, 4, 5, 6, 3)]
    await asyncio.sleep(0.01)
    asked[3].cancel()
    await asyncio.wait([asked[3]])
    go.set()
    assert await asyncio.gather(*asked[:3], asked[4]) == [20, 4, 5, 3]
    assert batches == [[20], [4, 5], [3]]


async def test_orders_above_the_limit_wait_for_room() -> None:
    slots, ends = Slots(2), [asyncio.Event() for _ in range(3)]
    begun: list[int] = []

    async def carry_out(number: int) -> None:
        async with slots.hold():
            begun.append(number)
            await ends[number].wait()

    tasks = [asyncio.create_task(carry_out(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert (begun, slots.in_hand, slots.free()) == ([0, 1], 3, 0)
    ends[0].set()
    await tasks[0]
    await asyncio.sleep(0)
    assert (begun, slots.in_hand) == ([0, 1, 2], 2)
    for end in ends:
        end.set()
    await asyncio.gather(*tasks)
