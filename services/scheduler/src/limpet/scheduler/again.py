"""A transaction that ran into another one is tried again: nothing of it was written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from limpet.kit.backoff import delay
from limpet.kit.errors import Retryable
from limpet.kit.pg import COLLIDED, Conn, Pool

T = TypeVar("T")
TRIES = 8


async def try_again(pool: Pool, work: Callable[[Conn], Awaitable[T]]) -> T:
    """One transaction, as often as it takes."""
    attempt = 0
    while True:
        attempt += 1
        try:
            async with pool.acquire() as conn, conn.transaction():
                return await work(conn)
        except COLLIDED as error:
            if attempt == TRIES:
                raise Retryable("some of these tasks are being settled at this moment; ask again") from error
        await asyncio.sleep(delay(attempt, base=0.05, cap=1, rng=Random()))
