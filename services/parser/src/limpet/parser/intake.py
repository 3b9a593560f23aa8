"""How many messages may be in hand, and none any more when the process stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from limpet.kit.delivery import Delivery


class Intake:
    """A message that waits for nothing but slow pages holds no slot, up to three times as many messages as slots."""

    def __init__(
        self, handler: Callable[[Delivery], Awaitable[None]], *, slots: int, late: Callable[[], int] = lambda: 0
    ) -> None:
        self._handler = handler
        self._slots = slots
        self._late = late
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_hand = 0

    def free(self) -> int:
        return 0 if self._stopping else self._slots - self.in_hand + min(self._late(), 3 * self._slots)

    async def take(self, delivery: Delivery) -> None:
        self.in_hand += 1
        self._idle.clear()
        try:
            await self._handler(delivery)
        finally:
            self.in_hand -= 1
            if not self.in_hand:
                self._idle.set()

    async def drain(self, seconds: float) -> None:
        """Take nothing new and let what is in hand finish; what is left is delivered to another."""
        self._stopping = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            pass
