"""Run a part of a process for the length of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(part: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """The part ends with the block; what it raised before that is raised here."""
    task = asyncio.create_task(part)
    try:
        yield task
    finally:
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(end, Exception):
        raise end
