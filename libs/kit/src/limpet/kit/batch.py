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
        self._sent: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def add(self, *records: bytes) -> None:
        """Several records may end in several batches: all of them have been sent then."""
        for sent in {self._put(record): None for record in records}:
            # One caller's cancellation must not take the batch away from the others.
            await asyncio.shield(sent)

    def _put(self, record: bytes) -> asyncio.Future[None]:
        if self._records and self._bytes + len(record) > MAX_BYTES:
            self._flush()
        if self._sent is None:
            loop = asyncio.get_running_loop()
            self._sent = loop.create_future()
            self._timer = loop.call_later(self._linger, self._flush)
        sent = self._sent
        self._records.append(record)
        self._bytes += len(record)
        if len(self._records) >= MAX_RECORDS:
            self._flush()
        return sent

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        records, sent = self._records, self._sent
        self._records, self._bytes, self._sent, self._timer = [], 0, None, None
        if sent is not None:
            task = asyncio.create_task(self._deliver(records, sent))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _deliver(self, records: list[bytes], sent: asyncio.Future[None]) -> None:
        try:
            await self._send(Batch(records=records).SerializeToString())
        except BaseException as error:
            if not sent.done():
                sent.set_exception(error)
                # Retrieved here too, so that a batch whose callers are gone does not warn.
                sent.exception()
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            if not sent.done():
                sent.set_result(None)
