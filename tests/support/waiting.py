"""Wait for a condition with a deadline: tests never sleep for a guess."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], Awaitable[T]], *, seconds: float = 10, every: float = 0.02) -> T:
    """The first answer of the condition that is not empty, zero or false."""
    async with asyncio.timeout(seconds):
        while not (answer := await condition()):
            await asyncio.sleep(every)
        return answer
