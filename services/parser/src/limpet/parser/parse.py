"""Start here: fetched pages come in, items go to the database, one fact per page goes out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from limpet.contracts.events.v1.beat_pb2 import ErrorOccurred, ErrorType
from limpet.contracts.events.v1.fetch_pb2 import OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched, ParseRequested
from limpet.contracts.events.v1.parse_pb2 import LinksDiscovered, PageParsed, ParseFailed, ParseStarted
from limpet.kit.beat import Pulse
from limpet.kit.bus import Bus, subject_of
from limpet.kit.clock import seconds_to_stamp
from limpet.kit.delivery import Delivery
from limpet.kit.pg import Pool
from limpet.kit.tracing import is_sampled, use
from limpet.kit.underway import Underway
from limpet.parser import metrics
from limpet.parser.parsed import parsed_page
from limpet.parser.quality import Quality
from limpet.parser.reading import Reading, Unread
from limpet.parser.store.pages import keep_pages
from limpet.parser.workers.jobs import Outcome

log = structlog.get_logger()

# Robots files, probes and the like are facts for others; only pages and sitemaps hold content.
_CONTENT: Final = (OrderKind.ORDER_KIND_PAGE, OrderKind.ORDER_KIND_SITEMAP, OrderKind.ORDER_KIND_UNSPECIFIED)
# Of one group of pages; a site whose every page is a trap is described well enough by these.
_ERRORS_TOLD: Final = 20


class Reads(Protocol):
    def read(self, pages: Sequence[PageFetched]) -> AsyncIterator[list[Outcome]]: ...


@dataclass(frozen=True)
class Parse:
    pool: Pool
    bus: Bus
    readers: Reads
    pulse: Pulse
    underway: Underway[ParseStarted]
    quality: Quality
    worker_id: str = ""

    async def on_delivery(self, delivery: Delivery) -> None:
        """A message holds many records of one kind; the subject says which."""
        if delivery.subject == subject_of(ParseRequested):
            await self.on_parse_requested(delivery.records(ParseRequested))
        else:
            await self.on_page_fetched(delivery.records(PageFetched))

    async def on_parse_requested(self, orders: Sequence[ParseRequested]) -> None:
        await self.on_page_fetched([order.page for order in orders])

    async def on_page_fetched(self, pages: Sequence[PageFetched]) -> None:
        """read in other processes -> store items -> announce; what takes its time holds up nothing else."""
        pages = [page for page in pages if page.kind in _CONTENT]
        if not pages:
            return
        with self.underway.running([ParseStarted(task_id=page.task_id, attempt=page.attempt) for page in pages]):
            # When the page store is away this raises: the message comes again, and no task pays for it.
            async for outcomes in self.readers.read(pages):
                await self._store(outcomes)
                await self._announce(outcomes)
                self._count(outcomes)

    async def _store(self, outcomes: Sequence[Outcome]) -> None:
        read = [(outcome.page, outcome.result) for outcome in outcomes if isinstance(outcome.result, Reading)]
        if read:
            async with self.pool.acquire() as conn:
                written = await keep_pages(conn, [parsed_page(page, reading) for page, reading in read])
            # A page that comes a second time says nothing new about its site.
            news = {page.task_id: (page, reading) for page, reading in read if page.task_id in written}
            self.quality.note(news.values())

    async def _announce(self, outcomes: Sequence[Outcome]) -> None:
        told = [outcome.announcement for outcome in outcomes if outcome.announcement is not None]
        unread = [(outcome, outcome.result) for outcome in outcomes if isinstance(outcome.result, Unread)]
        # Parts go first: whoever hears that the page is parsed can count on all its links being there.
        if parts := [part for one in told for part in one.links]:
            await self.bus.record_encoded(LinksDiscovered, parts)
        if told:
            await self.bus.record_encoded(PageParsed, [one.parsed for one in told])
        if unread:
            await self.bus.record(*(_failed(outcome, result) for outcome, result in unread))
            await self.bus.record(*(self._error(outcome, result) for outcome, result in unread[:_ERRORS_TOLD]))
        for outcome in outcomes:
            _log(outcome)

    def _error(self, outcome: Outcome, unread: Unread) -> ErrorOccurred:
        return ErrorOccurred(
            worker_id=self.worker_id,
            service="parser",
            type=ErrorType.ERROR_TYPE_PARSING,
            message=unread.error,
            stack_trace=unread.trace,
            url=outcome.page.url,
            operation=f"parse:{outcome.page.parser}",
            retry_attempt=outcome.page.attempt,
            error_time=seconds_to_stamp(outcome.started_at + outcome.seconds),
            task_id=outcome.page.task_id,
        )

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        readings = [outcome.result for outcome in outcomes if isinstance(outcome.result, Reading)]
        failed = len(outcomes) - len(readings)
        metrics.PAGES.labels("parsed").inc(len(readings))
        metrics.PAGES.labels("failed").inc(failed)
        metrics.ITEMS.inc(sum(len(reading.items) for reading in readings))
        metrics.LINKS.inc(sum(reading.link_count for reading in readings))
        seconds = sum(outcome.seconds for outcome in outcomes)
        metrics.PARSE_SECONDS.observe(seconds / len(outcomes))
        for _ in range(failed):
            self.pulse.failed()
        if readings:
            self.pulse.done(len(readings))
        self.pulse.latency(seconds / len(outcomes) * 1000)


def _failed(outcome: Outcome, unread: Unread) -> ParseFailed:
    return ParseFailed(
        page=outcome.page,
        error=unread.error,
        retryable=unread.retryable,
        started_time=seconds_to_stamp(outcome.started_at),
        duration_ms=int(outcome.seconds * 1000),
    )


def _log(outcome: Outcome) -> None:
    page, result = outcome.page, outcome.result
    if isinstance(result, Unread):
        with use(page.traceparent):
            log.warning("page_unread", task_id=page.task_id, attempt=page.attempt, url=page.url, error=result.error)
    elif is_sampled(page.traceparent):
        with use(page.traceparent):
            log.info(
                "page_parsed",
                task_id=page.task_id,
                attempt=page.attempt,
                domain=page.domain,
                parser=page.parser,
                page_type=result.page_type,
                item_count=len(result.items),
                link_count=result.link_count,
                duration_ms=round(outcome.seconds * 1000, 3),
                **({"note": result.note} if result.note else {}),
            )
