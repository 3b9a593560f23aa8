"""Listen to the fleet: beats into the table in memory, errors into their own table."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import structlog
from google.protobuf.message import DecodeError

from limpet.contracts.events.v1.beat_pb2 import Beat, ErrorOccurred, ErrorType
from limpet.contracts.events.v1.quality_pb2 import QualityChanged
from limpet.health import metrics
from limpet.health.fleet import Fleet
from limpet.health.store.errors import ErrorRow, insert_errors
from limpet.kit.bus import subject_of
from limpet.kit.delivery import Delivery
from limpet.kit.pg import Pool

log = structlog.get_logger()

BEATS: Final = "beat.*"
MAX_MESSAGE: Final = 10_000
MAX_STACK_TRACE: Final = 50_000
MAX_URL: Final = 8_000
MAX_NAME: Final = 200


@dataclass(frozen=True)
class Watch:
    """Every health replica hears every beat; each error is taken by one of them."""

    pool: Pool
    fleet: Fleet

    async def on_beat(self, data: bytes) -> None:
        try:
            beat = Beat.FromString(data)
        except DecodeError:
            metrics.BEATS.labels("undecodable").inc()
            return
        metrics.BEATS.labels(self.fleet.hear(beat, now=time.monotonic())).inc()

    async def on_error_occurred(self, delivery: Delivery) -> None:
        """A batch keeps its message id through redelivery, so its rows are written once."""
        batch_id = delivery.headers.get("Nats-Msg-Id") or hashlib.sha256(delivery.data).hexdigest()
        now = datetime.now(UTC)
        if delivery.subject == subject_of(QualityChanged):
            # What has recovered is no error; the parser's own list says so.
            rows = [quality_row(event, now=now) for event in delivery.records(QualityChanged) if event.dropped]
        else:
            rows = [error_row(event, now=now) for event in delivery.records(ErrorOccurred)]
        if not rows:
            return
        async with self.pool.acquire() as conn:
            written = await insert_errors(conn, rows, batch_id=batch_id)
        metrics.ERRORS_STORED.inc(written)


def error_row(event: ErrorOccurred, *, now: datetime) -> ErrorRow:
    """Foreign text is bounded and free of NUL, which PostgreSQL refuses."""
    return ErrorRow(
        scraper_id=_text(event.worker_id, limit=MAX_NAME),
        service=_text(event.service, limit=MAX_NAME),
        timestamp=_occurred_at(event, now=now),
        error_type=_type_name(event.type),
        error_message=_text(event.message, limit=MAX_MESSAGE),
        stack_trace=_text(event.stack_trace, limit=MAX_STACK_TRACE),
        url=_text(event.url, limit=MAX_URL),
        operation=_text(event.operation, limit=MAX_NAME),
        retry_attempt=event.retry_attempt,
        task_id=event.task_id or None,
    )


def quality_row(event: QualityChanged, *, now: datetime) -> ErrorRow:
    """A parser that finds less than it used to, as an error of the type parsing."""
    what = "pages with any item" if event.field == "*" else f"items with {event.field}"
    return error_row(
        ErrorOccurred(
            worker_id=event.parser,
            service="parser",
            type=ErrorType.ERROR_TYPE_PARSING,
            message=f"{event.domain}: {what} fell from {event.baseline:.0%} to {event.rate:.0%} of {event.seen}",
            operation="quality",
            error_time=event.changed_time,
        ),
        now=now,
    )


def _text(value: str, *, limit: int) -> str:
    return value[:limit].replace("\x00", "\ufffd")


def _occurred_at(event: ErrorOccurred, *, now: datetime) -> datetime:
    try:
        return event.error_time.ToDatetime(tzinfo=UTC) if event.error_time.seconds > 0 else now
    except (ValueError, OverflowError):
        return now


def _type_name(value: ErrorType.ValueType) -> str:
    """A type that this version does not know is kept as unknown: the error itself matters more."""
    if value == ErrorType.ERROR_TYPE_UNSPECIFIED or value not in ErrorType.values():
        return "unknown"
    return ErrorType.Name(value).removeprefix("ERROR_TYPE_").lower()
