"""Tell others what is under way; work that is quick never costs a notice."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from google.protobuf.message import Message

from limpet.contracts.events.v1.batch_pb2 import Batch
from limpet.kit.bus import Bus, subject_of

EVERY = 0.5
M = TypeVar("M", bound=Message)


class Underway(Generic[M]):
    """Notices over core NATS: nothing depends on them."""

    def __init__(self, bus: Bus, kind: type[M]) -> None:
        self._bus = bus
        self._subject = subject_of(kind)
        self._untold: dict[Hashable, M] = {}

    @contextmanager
    def running(self, notices: Sequence[M]) -> Iterator[None]:
        """Each notice is sent once if its work is still running at the next look."""
        keys = [id(notice) for notice in notices]
        self._untold.update(zip(keys, notices, strict=True))
        try:
            yield
        finally:
            for key in keys:
                self._untold.pop(key, None)

    async def run(self) -> None:
        """A part."""
        while True:
            await asyncio.sleep(EVERY)
            if self._untold and self._bus.client.is_connected:
                records = [notice.SerializeToString() for notice in self._untold.values()]
                self._untold.clear()
                await self._bus.client.publish(self._subject, Batch(records=records).SerializeToString())
