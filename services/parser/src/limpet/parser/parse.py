"""Start here: fetched pages come in, items go to the database, one fact per page goes out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from limpet.contracts.events.v1.fetch_pb2 import OrderKind
from limpet.contracts.events.v1.page_pb2 import PageFetched, ParseRequested
from limpet.contracts.events.v1.parse_pb2 import Link, LinksDiscovered, PageParsed, ParseFailed, ParseStarted
from limpet.kit.beat import Pulse
from limpet.kit.bus import Bus, subject_of
from limpet.kit.clock import seconds_to_stamp
from limpet.kit.delivery import Delivery
from limpet.kit.errors import Permanent
from limpet.kit.pg import Pool
from limpet.kit.tracing import is_sampled, use
from limpet.kit.underway import Underway
from limpet.parser import metrics
from limpet.parser.links import split
from limpet.parser.parsed import parsed_page
from limpet.parser.quality import Quality
from limpet.parser.reading import Reading, Unread, read_page
from limpet.parser.store.pages import keep_pages

log = structlog.get_logger()

READ_AT_ONCE: Final = 32
YIELD_EVERY: Final = 4
# Robots files, probes and the like are facts for others; only pages and sitemaps hold content.
_CONTENT: Final = (OrderKind.ORDER_KIND_PAGE, OrderKind.ORDER_KIND_SITEMAP, OrderKind.ORDER_KIND_UNSPECIFIED)


class Bodies(Protocol):
    def get_many(self, keys: Sequence[str]) -> Awaitable[Sequence[bytes | Permanent]]: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    page: PageFetched
    result: Reading | Unread
    started_at: float
    seconds: float


@dataclass(frozen=True)
class Parse:
    pool: Pool
    bus: Bus
    bodies: Bodies
    pulse: Pulse
    underway: Underway[ParseStarted]
    quality: Quality

    async def on_delivery(self, delivery: Delivery) -> None:
        """A message holds many records of one kind; the subject says which."""
        if delivery.subject == subject_of(ParseRequested):
            await self.on_parse_requested(delivery.records(ParseRequested))
        else:
            await self.on_page_fetched(delivery.records(PageFetched))

    async def on_parse_requested(self, orders: Sequence[ParseRequested]) -> None:
        await self.on_page_fetched([order.page for order in orders])

    async def on_page_fetched(self, pages: Sequence[PageFetched]) -> None:
        """read bodies -> parse -> store items -> announce."""
        pages = [page for page in pages if page.kind in _CONTENT]
        if not pages:
            return
        outcomes: list[Outcome] = []
        with self.underway.running([ParseStarted(task_id=page.task_id, attempt=page.attempt) for page in pages]):
            for start in range(0, len(pages), READ_AT_ONCE):
                outcomes += await self._parse(pages[start : start + READ_AT_ONCE])
            await self._store(outcomes)
        await self._announce(outcomes)
        self._count(outcomes)

    async def _parse(self, pages: Sequence[PageFetched]) -> list[Outcome]:
        # When the page store is away this raises: the message comes again, and no task pays for it.
        bodies = await self.bodies.get_many([page.body_key for page in pages])
        outcomes: list[Outcome] = []
        for page, body in zip(pages, bodies, strict=True):
            started_at, begun = time.time(), time.perf_counter()
            if isinstance(body, Permanent):
                result: Reading | Unread = Unread(f"{type(body).__name__}: {body}"[:500])
            else:
                result = read_page(page, body)
            outcomes.append(Outcome(page, result, started_at, time.perf_counter() - begun))
            if len(outcomes) % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return outcomes

    async def _store(self, outcomes: Sequence[Outcome]) -> None:
        parsed = [
            parsed_page(outcome.page, outcome.result) for outcome in outcomes if isinstance(outcome.result, Reading)
        ]
        if parsed:
            async with self.pool.acquire() as conn:
                await keep_pages(conn, parsed)

    async def _announce(self, outcomes: Sequence[Outcome]) -> None:
        parsed, failed, parts = [], [], []
        for outcome in outcomes:
            if isinstance(outcome.result, Unread):
                failed.append(_failed(outcome, outcome.result))
            else:
                embedded, *rest = split(outcome.result.links)
                parts += [_part(outcome.page, number, links) for number, links in enumerate(rest, start=1)]
                parsed.append(_parsed(outcome, outcome.result, embedded, parts=len(rest)))
        # Parts go first: whoever hears that the page is parsed can count on all its links being there.
        if parts:
            await self.bus.record(*parts)
        if parsed:
            await self.bus.record(*parsed)
        if failed:
            await self.bus.record(*failed)
        for outcome in outcomes:
            _log(outcome)

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


def _parsed(outcome: Outcome, reading: Reading, links: Sequence[Link], *, parts: int) -> PageParsed:
    return PageParsed(
        page=outcome.page,
        item_count=len(reading.items),
        page_type=reading.page_type,
        links=links,
        link_parts=parts,
        started_time=seconds_to_stamp(outcome.started_at),
        duration_ms=int(outcome.seconds * 1000),
        parser_version=reading.parser_version,
        canonical_url=reading.canonical_url,
        fingerprint=reading.text.fingerprint,
        simhash=reading.text.simhash,
        says_empty=reading.text.says_empty,
    )


def _failed(outcome: Outcome, unread: Unread) -> ParseFailed:
    return ParseFailed(
        page=outcome.page,
        error=unread.error,
        retryable=False,
        started_time=seconds_to_stamp(outcome.started_at),
        duration_ms=int(outcome.seconds * 1000),
    )


def _part(page: PageFetched, number: int, links: Sequence[Link]) -> LinksDiscovered:
    return LinksDiscovered(
        task_id=page.task_id, attempt=page.attempt, part=number, links=links, traceparent=page.traceparent
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
