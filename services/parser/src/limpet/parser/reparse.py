"""Stored pages are read again, a piece at a time, without one request; a job survives whoever works on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import uuid4

import structlog

from limpet.contracts.events.v1.fetch_pb2 import OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.blobs import BlobMissing
from limpet.kit.errors import Retryable
from limpet.kit.pg import COLLIDED, LOST, Pool
from limpet.parser import metrics
from limpet.parser.differences import Differences
from limpet.parser.parsed import parsed_page
from limpet.parser.reading import Reading, Unread
from limpet.parser.store.pages import keep_pages
from limpet.parser.store.reparse_jobs import Counts, Job, StoredPage, advance_job, kept_items, next_pages, take_job

log = structlog.get_logger()

Read = Callable[[Sequence[PageFetched]], Awaitable[Sequence[Reading | Unread]]]
PIECE: Final = 100
EVERY: Final = 1.0
# Longer than a piece can take, were every page of it given up at its limit.
HOLD: Final = timedelta(minutes=10)


class JobLost(Exception):
    """The job was cancelled meanwhile, or another parser has it: nothing of this piece happens."""


@dataclass(frozen=True)
class Reparse:
    pool: Pool
    read: Read
    piece: int = PIECE
    every: float = EVERY
    hold: timedelta = HOLD
    holder: str = field(default_factory=lambda: uuid4().hex)

    async def run(self) -> None:
        """A part. Pages as they are fetched come between two pieces, not after the job."""
        while True:
            try:
                worked = await self.step()
            except (*LOST, *COLLIDED, Retryable) as error:
                log.warning("reparse_interrupted", error=repr(error))
                worked = False
            await asyncio.sleep(0 if worked else self.every)

    async def step(self) -> bool:
        """One piece of the job that waited longest. False where there is none."""
        async with self.pool.acquire() as conn:
            job = await take_job(conn, holder=self.holder, hold=self.hold)
            if job is None:
                return False
            pages = await next_pages(conn, job, limit=self.piece)
        readings = await self.read([_as_fetched(page, parser=job.parser) for page in pages]) if pages else []
        try:
            await self._settle(job, pages, readings)
        except JobLost:
            log.info("reparse_piece_dropped", job_id=job.job_id)
        return True

    async def _settle(self, job: Job, pages: Sequence[StoredPage], readings: Sequence[Reading | Unread]) -> None:
        """Items and progress in one transaction: what is counted is written, and written once."""
        differences = Differences.from_json(job.differences)
        found = [(page, reading) for page, reading in zip(pages, readings, strict=True) if isinstance(reading, Reading)]
        lost = [reading for reading in readings if isinstance(reading, Unread)]
        gone = sum(is_gone(reading) for reading in lost)
        finished = len(pages) < self.piece
        async with self.pool.acquire() as conn, conn.transaction():
            before = await kept_items(conn, [page.task_id for page, _ in found])
            written = set[int]()
            if not job.dry_run and found:
                rows = [parsed_page(_as_fetched(page, parser=job.parser), reading) for page, reading in found]
                written = await keep_pages(conn, rows)
            same = outdated = changed = 0
            for page, reading in found:
                if page.task_id not in written and not job.dry_run:
                    known = _is_known(page, reading, parser=job.parser)
                    same, outdated = same + known, outdated + (not known)
                    continue
                changed += differences.add(
                    before.get(page.task_id, ()), reading.items, task_id=page.task_id, url=page.url
                )
            counts = Counts(len(pages), len(written), changed, same, gone, len(lost) - gone, outdated)
            done_to = job.last_task_id if finished else pages[-1].task_id
            if not await advance_job(
                conn,
                job,
                holder=self.holder,
                done_to=done_to,
                counts=counts,
                differences=differences.to_json(),
                finished=finished,
            ):
                raise JobLost
        metrics.REPARSED.labels("written").inc(counts.written)
        metrics.REPARSED.labels("gone").inc(counts.gone)
        metrics.REPARSED.labels("failed").inc(counts.failed)
        if finished:
            log.info("reparse_completed", job_id=job.job_id)


def is_gone(unread: Unread) -> bool:
    """The page store has let go of the body."""
    return unread.error.startswith(f"{BlobMissing.__name__}:")


def _is_known(page: StoredPage, reading: Reading, *, parser: str) -> bool:
    """Not written because it was read this way before; else because a later fetch has come."""
    return (page.parser, page.parser_version) == (parser or page.parser, reading.parser_version)


def _as_fetched(page: StoredPage, *, parser: str) -> PageFetched:
    """As the fetcher told of it; nobody follows its links a second time."""
    fetched = PageFetched(
        task_id=page.task_id,
        attempt=page.attempt,
        domain=page.domain,
        batch=page.batch,
        url=page.url,
        kind=OrderKind.ORDER_KIND_PAGE,
        parser=parser or page.parser,
        body_key=page.body_key,
        content_type=page.content_type,
        charset=page.charset,
    )
    fetched.started_time.FromDatetime(page.scraped_at)
    return fetched
