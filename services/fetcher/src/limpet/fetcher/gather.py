"""Things of many callers gathered for a few milliseconds and handled by one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Gather(Generic[T, R]):
    """`add` returns the answer to its own thing, or raises what handling the batch raised."""

    def __init__(
        self, handle: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, linger: float, most: int = 100
    ) -> None:
        self._handle = handle
        self._linger = linger
        self._most = most
        self._open: list[T] = []
        self._answers: asyncio.Future[Sequence[R]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def add(self, thing: T) -> R:
        if self._answers is None:
            loop = asyncio.get_running_loop()
            self._answers = loop.create_future()
            self._timer = loop.call_later(self._linger, self._flush)
        answers, place = self._answers, len(self._open)
        self._open.append(thing)
        if len(self._open) >= self._most:
            self._flush()
        # One caller's cancellation must not take the batch away from the others.
        return (await asyncio.shield(answers))[place]

    async def drain(self) -> None:
        """Handle what is open now and wait for all that runs."""
        self._flush()
        await asyncio.gather(*self._running)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        things, answers = self._open, self._answers
        self._open, self._answers, self._timer = [], None, None
        if answers is not None:
            task = asyncio.create_task(self._run(things, answers))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, things: Sequence[T], answers: asyncio.Future[Sequence[R]]) -> None:
        try:
            found = await self._handle(things)
        except BaseException as error:
            if not answers.done():
                answers.set_exception(error)
                # Retrieved here too, so that a batch whose callers are gone does not warn.
                answers.exception()
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            if not answers.done():
                answers.set_result(found)
