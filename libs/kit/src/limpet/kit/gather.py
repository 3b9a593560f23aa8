"""Things of many callers gathered for a few milliseconds, or while others are being handled, and handled by one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Gather(Generic[T, R]):
    """`add` returns the answer to its own thing, or raises what handling the batch raised.

    With `at_once`, only so many batches are handled at a time: what comes meanwhile makes the next one larger. A batch
    holds at most `most`, by the count of its things or by what `weigh` says of each; one that is heavier goes alone.
    """

    def __init__(
        self,
        handle: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        *,
        linger: float,
        most: int = 100,
        at_once: int | None = None,
        weigh: Callable[[T], int] = lambda _: 1,
    ) -> None:
        self._handle = handle
        self._linger = linger
        self._most = most
        self._at_once = at_once
        self._weigh = weigh
        self._weight = 0
        self._open: list[tuple[T, asyncio.Future[R]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def add(self, thing: T) -> R:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        self._open.append((thing, answer))
        self._weight += self._weigh(thing)
        if self._weight >= self._most:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(self._linger, self._flush)
        return await answer

    async def drain(self) -> None:
        """Handle what is open now and wait for all that runs."""
        while self._open or self._running:
            self._flush()
            await asyncio.gather(*self._running)

    def _flush(self) -> None:
        """Start a batch, unless as many as may are running: then the end of one of them starts it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._open and (self._at_once is None or len(self._running) < self._at_once):
            # Nobody waits any more for what a caller that was cancelled had asked for.
            batch = [(thing, answer) for thing, answer in self._cut() if not answer.done()]
            if not batch:
                continue
            task = asyncio.create_task(self._run(batch))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _cut(self) -> list[tuple[T, asyncio.Future[R]]]:
        weight, count = 0, 0
        for thing, _ in self._open:
            heavier = weight + self._weigh(thing)
            if count and heavier > self._most:
                break
            weight, count = heavier, count + 1
        batch, self._open = self._open[:count], self._open[count:]
        self._weight -= weight
        return batch

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if self._at_once is not None and self._open:
            self._flush()

    async def _run(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            found = await self._handle([thing for thing, _ in batch])
        except BaseException as error:
            for _, answer in batch:
                # A caller that was cancelled is gone, and the others still hear of it.
                if not answer.done():
                    answer.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            for (_, answer), one in zip(batch, found, strict=True):
                if not answer.done():
                    answer.set_result(one)
