"""A page that was read, as the row that is kept of it."""

from __future__ import annotations

from datetime import UTC, datetime

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.clock import to_datetime
from limpet.parser.reading import Reading
from limpet.parser.store.pages import ParsedPage


def parsed_page(page: PageFetched, reading: Reading) -> ParsedPage:
    return ParsedPage(
        task_id=page.task_id,
        attempt=page.attempt,
        domain=page.domain,
        batch=page.batch,
        url=page.url,
        parser=page.parser,
        parser_version=reading.parser_version,
        page_type=reading.page_type,
        title=reading.title,
        body_key=page.body_key,
        content_type=page.content_type,
        charset=page.charset,
        scraped_at=to_datetime(page.started_time) or datetime.now(UTC),
        link_count=reading.link_count,
        items=reading.items,
    )
