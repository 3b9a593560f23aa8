"""The one fact that an order ends in, and the row that is kept of an answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from limpet.contracts.events.v1.fetch_pb2 import FetchFailed, FetchRequested, FetchReturned, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.fetcher.page import Page
from limpet.fetcher.redirect import Moved
from limpet.fetcher.store.responses import Response
from limpet.fetcher.unchanged import Unchanged
from limpet.fetcher.validate import Failure, Overlooked, Rejection
from limpet.kit.clock import seconds_to_stamp

Fact: TypeAlias = PageFetched | PageRejected | FetchFailed | FetchReturned
# What was found of an answer; None is a good page, and Overlooked one that is taken for it.
Judgement: TypeAlias = Moved | Unchanged | Overlooked | Rejection | Failure | None

_REASON_UNCHANGED = ReturnReason.RETURN_REASON_UNCHANGED
OUTCOMES = ("fetched", "unchanged", "blocked", "garbage", "needs_render", "redirected", "failed", "returned")
_REJECTED = {
    RejectKind.REJECT_KIND_BLOCKED: "blocked",
    RejectKind.REJECT_KIND_GARBAGE: "garbage",
    RejectKind.REJECT_KIND_NEEDS_RENDER: "needs_render",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One request: when it started (database clock), how long it took, through what."""

    started: float
    response_ms: int
    proxy_id: int


def returned(order: FetchRequested, reason: ReturnReason.ValueType, *, hold_seconds: float = 0.0) -> FetchReturned:
    return FetchReturned(
        task_id=order.task_id,
        attempt=order.attempt,
        domain=order.domain,
        reason=reason,
        hold_seconds=hold_seconds,
        traceparent=order.traceparent,
    )


def settled(order: FetchRequested, made: Try, page: Page | None, judged: Judgement, *, body_key: str = "") -> Fact:
    """The fact about a request that was made."""
    status = page.status if page is not None else 0
    started = seconds_to_stamp(made.started)
    if isinstance(judged, Moved):
        fact = returned(order, ReturnReason.RETURN_REASON_REDIRECTED)
        fact.location, fact.http_status = judged.location, status
        fact.started_time.CopyFrom(started)
        return fact
    if isinstance(judged, Unchanged):
        # Without its key the page that is known is not kept any more.
        fact = returned(order, _REASON_UNCHANGED if body_key else ReturnReason.RETURN_REASON_PAGE_GONE)
        fact.http_status, fact.response_ms, fact.proxy_id = status, made.response_ms, made.proxy_id
        fact.started_time.CopyFrom(started)
        return fact
    if isinstance(judged, Failure):
        return FetchFailed(
            task_id=order.task_id,
            attempt=order.attempt,
            domain=order.domain,
            kind=judged.kind,
            error=judged.error,
            http_status=status,
            started_time=started,
            response_ms=made.response_ms,
            proxy_id=made.proxy_id,
            traceparent=order.traceparent,
        )
    if isinstance(judged, Rejection):
        wall = judged.wall
        return PageRejected(
            task_id=order.task_id,
            attempt=order.attempt,
            domain=order.domain,
            kind=judged.kind,
            reason=judged.reason,
            http_status=status,
            retry_after_seconds=judged.retry_after_seconds,
            hard=judged.hard,
            started_time=started,
            response_ms=made.response_ms,
            proxy_id=made.proxy_id,
            traceparent=order.traceparent,
            vendor=wall.vendor if wall else "",
            score=wall.score if wall else 0,
            signals=wall.signals if wall else (),
        )
    if page is None:
        raise AssertionError("a good page without a page")
    trusted = judged is None and page.status == 200
    return PageFetched(
        task_id=order.task_id,
        attempt=order.attempt,
        domain=order.domain,
        url=order.url,
        kind=order.kind,
        parser=order.parser,
        follow=order.follow,
        body_key=body_key,
        content_type=page.content_type,
        charset=page.charset,
        http_status=status,
        response_ms=made.response_ms,
        size_bytes=len(page.body),
        proxy_id=made.proxy_id,
        started_time=started,
        traceparent=order.traceparent,
        batch=order.batch,
        etag=page.etag if trusted else "",
        last_modified=page.last_modified if trusted else "",
    )


def row(order: FetchRequested, made: Try, page: Page, judged: Judgement) -> Response:
    """Without the body's key, which is known when the body is kept; only of a page that has not changed it is known."""
    name, reason, wall, key = "fetched", "", None, ""
    shadow = isinstance(judged, Overlooked)
    if isinstance(judged, Overlooked):
        judged = judged.rejection
    if isinstance(judged, Moved):
        name, reason = "redirected", judged.location
    elif isinstance(judged, Unchanged):
        name, key = "unchanged", order.known.body_key
    elif isinstance(judged, Failure):
        name, reason = "failed", judged.error
    elif isinstance(judged, Rejection):
        name, reason, wall = _REJECTED[judged.kind], judged.reason, judged.wall
    response = Response(
        task_id=order.task_id,
        attempt=order.attempt,
        domain=order.domain,
        url=order.url,
        http_status=page.status,
        content_type=page.content_type,
        size_bytes=len(page.body),
        response_ms=made.response_ms,
        verdict=name,
        reason=reason,
        fetched_at=datetime.fromtimestamp(made.started, UTC),
        body_key=key,
        shadow=shadow,
    )
    if wall is None:
        return response
    return response._replace(vendor=wall.vendor, score=wall.score, signals="\n".join(wall.signals))


def outcome_of(fact: Fact) -> str:
    """One of OUTCOMES."""
    if isinstance(fact, PageFetched):
        return "fetched"
    if isinstance(fact, PageRejected):
        return _REJECTED[fact.kind]
    if isinstance(fact, FetchFailed):
        return "failed"
    if fact.reason == _REASON_UNCHANGED:
        return "unchanged"
    return "redirected" if fact.reason == ReturnReason.RETURN_REASON_REDIRECTED else "returned"


def told(fact: Fact) -> dict[str, object]:
    """What a log line says of it."""
    if isinstance(fact, PageFetched):
        return {"status": fact.http_status, "size_bytes": fact.size_bytes, "response_ms": fact.response_ms}
    if isinstance(fact, PageRejected):
        return {"status": fact.http_status, "reason": fact.reason}
    if isinstance(fact, FetchFailed):
        return {"status": fact.http_status, "error": fact.error}
    return {"status": fact.http_status, "reason": ReturnReason.Name(fact.reason), "location": fact.location}
