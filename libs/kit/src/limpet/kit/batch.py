"""Records of one kind gathered for a few milliseconds and sent as one message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from limpet.contracts.events.v1.batch_pb2 import Batch

MAX_RECORDS = 100
MAX_BYTES = 512 << 10
LINGER = 0.005


class Batcher:
    """`add` returns when the batch that holds the record has been sent, or raises what sending raised."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]], *, linger: float = LINGER) -> None:
        self._send = send
        self._linger = linger
        self._records: list[bytes] = []
        self._bytes = 0
        self._callers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def add(self, *records: bytes) -> None:
        """Several records may end in several batches: all of them have been sent then."""
        loop = asyncio.get_running_loop()
        mine: list[asyncio.Future[None]] = []
        batch: list[asyncio.Future[None]] | None = None
        for record in records:
            if self._records and self._bytes + len(record) > MAX_BYTES:
                self._flush()
            if self._timer is None:
                self._timer = loop.call_later(self._linger, self._flush)
            if batch is not self._callers:
                # A future for each caller: one's cancellation must not take the batch away from the others.
                batch = self._callers
                mine.append(loop.create_future())
                batch.append(mine[-1])
            self._records.append(record)
            self._bytes += len(record)
            if len(self._records) >= MAX_RECORDS:
                self._flush()
        for sent in mine:
            await sent

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        records, callers = self._records, self._callers
        self._records, self._bytes, self._callers, self._timer = [], 0, [], None
        if records:
            task = asyncio.create_task(self._deliver(records, callers))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _deliver(self, records: list[bytes], callers: list[asyncio.Future[None]]) -> None:
        try:
            await self._send(Batch(records=records).SerializeToString())
        except BaseException as error:
            for sent in callers:
                if not sent.done():
                    sent.set_exception(error)
                    # Retrieved here too, so that a batch whose callers are gone does not warn.
                    sent.exception()
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            for sent in callers:
                if not sent.done():
                    sent.set_result(None)
