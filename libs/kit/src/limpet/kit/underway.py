"""Tell others what is under way; work that is quick never costs a notice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
        self._untold: dict[int, M] = {}

    def running(self, notices: Sequence[M]) -> _Running[M]:
        """Each notice is sent once if its work is still running at the next look."""
        return _Running(self._untold, notices)

    async def run(self) -> None:
        """A part."""
        while True:
            await asyncio.sleep(EVERY)
            if self._untold and self._bus.client.is_connected:
                records = [notice.SerializeToString() for notice in self._untold.values()]
                self._untold.clear()
                await self._bus.client.publish(self._subject, Batch(records=records).SerializeToString())


class _Running(Generic[M]):
    """A class, because a generator costs several times as much, and this runs for every piece of work."""

    __slots__ = ("_notices", "_untold")

    def __init__(self, untold: dict[int, M], notices: Sequence[M]) -> None:
        self._untold, self._notices = untold, notices

    def __enter__(self) -> None:
        for notice in self._notices:
            self._untold[id(notice)] = notice

    def __exit__(self, *_: object) -> None:
        for notice in self._notices:
            self._untold.pop(id(notice), None)
