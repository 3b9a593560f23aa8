"""Pages in, outcomes out: read in processes of their own, so that a page can cost no more than itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.errors import Permanent
from limpet.kit.stall import progressed
from limpet.parser.reading import Reading, Unread, unread
from limpet.parser.recipes.folder import RecipeFolder
from limpet.parser.workers.jobs import Chunk, Job, Outcome
from limpet.parser.workers.limits import Limits
from limpet.parser.workers.nursery import open_nursery
from limpet.parser.workers.seats import Recipes, Seats
from limpet.parser.workers.wire import Read

CHUNK: Final = 25
PATIENCE: Final = 30.0


class Bodies(Protocol):
    def get_packed(self, keys: Sequence[str]) -> Awaitable[Sequence[bytes | Permanent]]: ...


class Readers:
    """The one door to reading pages: for pages as they are fetched and for those that are read again."""

    def __init__(self, bodies: Bodies, seats: Seats) -> None:
        self._bodies = bodies
        self._seats = seats
        self._jobs: set[Job] = set()
        # Called when one more of them waits for late pages only.
        self.on_late: Callable[[], object] = _nothing

    @property
    def waiting_for_late(self) -> int:
        """How many callers wait for nothing but pages that take their time."""
        return sum(job.waits for job in self._jobs)

    async def run(self) -> None:
        """A part: ends only when no worker can be had any more."""
        await self._seats.run()

    async def read_many(self, pages: Sequence[PageFetched], *, parser: str = "") -> list[Outcome]:
        """All of them, in their order; by another parser than their own where one is named."""
        if parser:
            pages = [_by(page, parser) for page in pages]
        found = {id(outcome.page): outcome async for some in self.read(pages) for outcome in some}
        return [found[id(page)] for page in pages]

    async def readings(self, pages: Sequence[PageFetched]) -> list[Reading | Unread]:
        """What came of each, for who stores them and tells nobody."""
        return [outcome.result for outcome in await self.read_many(pages)]

    async def read(self, pages: Sequence[PageFetched]) -> AsyncIterator[list[Outcome]]:
        """The prompt ones together, then the late ones as they come. Raises only where the page store is away."""
        # Compressed as they are kept: the workers unpack them.
        frames = await self._bodies.get_packed([page.body_key for page in pages])
        job = Job(pages, on_late=self.on_late, frames=[frame if isinstance(frame, bytes) else b"" for frame in frames])
        whole: list[int] = []
        for index, frame in enumerate(frames):
            if isinstance(frame, Permanent):
                job.take(index, Read(Unread(unread(frame).error), None, time.time(), 0.0))
            else:
                whole.append(index)
        for start in range(0, len(whole), CHUNK):
            self._seats.put(Chunk(job, whole[start : start + CHUNK]))
        self._jobs.add(job)
        try:
            while not job.done:
                yield await self._settled(job)
                if job.waits:
                    self.on_late()
        finally:
            self._jobs.discard(job)
            job.abandon()

    async def _settled(self, job: Job) -> list[Outcome]:
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    return await job.settled()
            except TimeoutError:
                if job.only_late:
                    # They have limits of their own: that the message waits for them is no stall.
                    progressed(time.monotonic())


@asynccontextmanager
async def open_readers(
    bodies: Bodies, *, processes: int, spares: int, limits: Limits, recipes: Recipes | None = None
) -> AsyncIterator[Readers]:
    async with open_nursery(memory_mb=limits.memory_mb) as nursery:
        seats = Seats(nursery, processes=processes, spares=spares, limits=limits, recipes=recipes or RecipeFolder(None))
        try:
            yield Readers(bodies, seats)
        finally:
            await seats.close()


def _nothing() -> None:
    """Nobody asked to be told."""


def _by(page: PageFetched, parser: str) -> PageFetched:
    changed = PageFetched()
    changed.CopyFrom(page)
    changed.parser = parser
    return changed
