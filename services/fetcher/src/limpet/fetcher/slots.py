"""The orders in hand: how many more fit, how they wait for room and time, and how they end when the process stops."""

from __future__ import annotations

import asyncio

from limpet.fetcher.metrics import IN_HAND

# The scheduler puts at most this many orders into one message.
MOST_TOGETHER = 8


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

    def free(self) -> int:
        """How many more messages are asked for. What comes above the limit waits for room."""
        room = self._limit - self.in_hand
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

    async def drain(self, seconds: float) -> None:
        """Take nothing more, wake what waits for its slot, let what runs finish."""
        self.stopping = True
        for future in list(self._waiting):
            _wake(future)
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            # What is left is cancelled with its consumer; its permit expires by itself.
            return


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
