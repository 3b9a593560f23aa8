"""Tell the scheduler which requests are under way; a page that is quick never costs a notice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.contracts.events.v1.fetch_pb2 import FetchStarted
from limpet.kit.bus import Bus, subject_of

EVERY = 0.5


class Started:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._untold: set[tuple[int, int]] = set()

    @contextmanager
    def running(self, task_id: int, attempt: int) -> Iterator[None]:
        permit = (task_id, attempt)
        self._untold.add(permit)
        try:
            yield
        finally:
            self._untold.discard(permit)

    async def run(self) -> None:
        """A part. Core NATS: nothing depends on the notices."""
        while True:
            await asyncio.sleep(EVERY)
            if self._untold and self._bus.client.is_connected:
                records = [
                    FetchStarted(task_id=task_id, attempt=attempt).SerializeToString()
                    for task_id, attempt in self._untold
                ]
                self._untold.clear()
                await self._bus.client.publish(subject_of(FetchStarted), Batch(records=records).SerializeToString())
