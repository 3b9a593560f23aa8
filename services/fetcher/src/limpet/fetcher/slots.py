"""The orders in hand: how many more fit, how they wait for room and time, and how they end when the process stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from limpet.contracts.events.v1.fetch_pb2 import ReturnReason
from limpet.fetcher.metrics import IN_HAND, PAUSED

# The scheduler puts at most this many orders into one message.
MOST_TOGETHER = 8
# The end of a drain that is kept for telling what came of the orders that had to be cut off.
TELL_SECONDS = 2.0
# While orders go back, a few are taken this often: where all fetchers pause, nobody else would return them in time.
SWEEP_EVERY = 4.0
T = TypeVar("T")


class Slots:
    """One count over all consumers of the process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._room = asyncio.Semaphore(limit)
        self._empty = asyncio.Event()
        self._empty.set()
        self._waiting: set[asyncio.Future[None]] = set()
        self.in_hand = 0
        self.stopping = False
        IN_HAND.set_function(lambda: self.in_hand)
        # Why nothing more is taken, by what found it; those with a reason send back what has not started.
        self._pauses: dict[str, tuple[str, ReturnReason.ValueType | None]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._cut = False
        self._sweep_at: dict[str, float] = {}

    def free(self, queue: str = "") -> int:
        """How many more messages of a queue are asked for. What comes above the limit waits for room."""
        room = self._limit - self.in_hand
        if self._pauses:
            return self._sweep(queue, time.monotonic())
        return 0 if self.stopping or room <= 0 else max(1, room // MOST_TOGETHER)

    def hold(self) -> _Hold:
        """Have one order in hand, and room to carry it out."""
        return _Hold(self)

    async def take(self) -> None:
        self.in_hand += 1
        self._empty.clear()
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            self._forget()
            raise

    def give_back(self) -> None:
        self._room.release()
        self._forget()

    def _forget(self) -> None:
        self.in_hand -= 1
        if not self.in_hand:
            self._empty.set()

    async def pause(self, seconds: float) -> None:
        """Sleep, but not when the process stops: look at `stopping` after it."""
        if self.stopping:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _wake, future)
        self._waiting.add(future)
        try:
            await future
        finally:
            timer.cancel()
            self._waiting.discard(future)

    def _sweep(self, queue: str, now: float) -> int:
        """Seldom enough to take little from fetchers that are well."""
        if self.stopping or self.hindrance is None or now < self._sweep_at.setdefault(queue, now + SWEEP_EVERY):
            return 0
        self._sweep_at[queue] = now + SWEEP_EVERY
        return max(1, self._limit // (4 * MOST_TOGETHER))

    @property
    def paused(self) -> str:
        """Why nothing more is taken, for people; empty while all is well."""
        return "; ".join(why for why, _ in self._pauses.values())

    @property
    def hindrance(self) -> ReturnReason.ValueType | None:
        """Why an order that has not started goes back."""
        if self.stopping:
            return ReturnReason.RETURN_REASON_SHUTDOWN
        return next((reason for _, reason in self._pauses.values() if reason is not None), None)

    def hold_off(self, name: str, why: str, *, give_back: ReturnReason.ValueType | None = None) -> None:
        """Take nothing more until `go_on`. With a reason, what waits for its slot goes back at once."""
        self._pauses[name] = (why, give_back)
        PAUSED.labels(name).set(1)
        if give_back is not None:
            self._wake_all()

    def go_on(self, name: str) -> None:
        self._pauses.pop(name, None)
        self._sweep_at.clear()
        PAUSED.labels(name).set(0)

    async def unless_cut(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What comes of the work; None where the end of a drain has cut it off."""
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("work is done in tasks")
        self._running.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if not self._cut:
                raise
            task.uncancel()
            return None
        finally:
            self._running.discard(task)

    def stop(self) -> None:
        """Take nothing more, and send back what has not started."""
        self.stopping = True
        self._wake_all()

    async def drain(self, seconds: float) -> None:
        """Stop, let what runs finish, and cut off what does not in time for it to be told."""
        self.stop()
        tell = min(TELL_SECONDS, seconds / 4)
        if not await self.emptied(seconds - tell):
            self._cut = True
            for task in list(self._running):
                task.cancel()
            # Who cannot even be told of within this is cancelled with its consumer; its permit expires by itself.
            await self.emptied(tell)

    async def emptied(self, seconds: float) -> bool:
        """Wait until nothing is in hand; false when there still is after so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return True

    def _wake_all(self) -> None:
        for future in list(self._waiting):
            _wake(future)


class _Hold:
    """A class, because a generator costs several times as much, and this runs for every order."""

    __slots__ = ("_slots",)

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    async def __aenter__(self) -> None:
        await self._slots.take()

    async def __aexit__(self, *_: object) -> None:
        self._slots.give_back()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
