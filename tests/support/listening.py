"""Wait for a part that listens on a port, or no longer does."""

from __future__ import annotations

import asyncio

from tests.support.waiting import until


async def listening(port: int) -> None:
    async def answers() -> bool:
        return await _answers(port)

    await until(answers)


async def silent(port: int) -> None:
    async def refuses() -> bool:
        return not await _answers(port)

    await until(refuses)


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
