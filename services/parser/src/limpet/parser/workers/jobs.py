"""The pages that somebody wants read together, and which of them have been."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.parser.announcement import Announcement
from limpet.parser.reading import Reading, Unread
from limpet.parser.workers.wire import Read


@dataclass(frozen=True, slots=True)
class Outcome:
    page: PageFetched
    # Its links are in the announcement only.
    result: Reading | Unread
    started_at: float
    seconds: float
    announcement: Announcement | None = None


class Job:
    """Most pages are prompt. A few are late: whoever waits for the prompt ones does not wait for those."""

    def __init__(self, pages: Sequence[PageFetched], frames: Sequence[bytes], *, on_late: Callable[[], object]) -> None:
        self.pages, self.frames = pages, frames
        self._on_late = on_late
        self._open = set(range(len(pages)))
        self._late: set[int] = set()
        self._ready: list[tuple[int, Outcome]] = []
        self._settled = asyncio.Event()

    @property
    def done(self) -> bool:
        return not self._open and not self._ready

    @property
    def only_late(self) -> bool:
        return bool(self._open) and self._open <= self._late

    @property
    def waits(self) -> bool:
        """For late pages only, and there is nothing to give away meanwhile."""
        return self.only_late and not self._ready

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self._open.clear()

    def is_open(self, index: int) -> bool:
        return index in self._open

    def late(self, indices: Iterable[int]) -> None:
        self._late.update(indices)
        self._look()
        if self.waits:
            self._on_late()

    def take(self, index: int, read: Read) -> None:
        """The first word on a page counts; it may have been read twice."""
        if index in self._open:
            self._open.discard(index)
            page = self.pages[index]
            outcome = Outcome(page, read.result, read.started_at, read.seconds, read.announcement)
            self._ready.append((index, outcome))
            self._look()

    def _look(self) -> None:
        if self._open <= self._late:
            self._settled.set()

    async def settled(self) -> list[Outcome]:
        """What has come, in the order of the pages, once nothing that is prompt is missing."""
        while not self._ready or not self._settled.is_set():
            self._settled.clear()
            await self._settled.wait()
        ready = [outcome for _, outcome in sorted(self._ready, key=lambda pair: pair[0])]
        self._ready = []
        self._settled.clear()
        return ready


@dataclass(frozen=True, slots=True)
class Chunk:
    """Pages of a job that one worker reads. One that may have killed a worker is read alone, in a new process."""

    job: Job
    indices: Sequence[int]
    alone: bool = False
