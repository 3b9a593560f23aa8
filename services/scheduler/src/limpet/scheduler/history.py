"""What a fact says about the attempts of its task. Pure."""

from __future__ import annotations

from google.protobuf.message import Message

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit.clock import to_datetime
from limpet.scheduler.store.attempts import Attempt


def attempts_of(fact: Message, *, fetch_known: bool) -> list[Attempt]:
    """A parsed page was fetched: where nobody has said so yet, it tells of both."""
    match fact:
        case PageFetched():
            return [_fetch(fact)]
        case PageParsed():
            return _parsed(fact, "parsed", None, fetch_known=fetch_known)
        case ParseFailed():
            return _parsed(fact, "parse_failed", fact.error, fetch_known=fetch_known)
        case FetchFailed():
            name = FailureKind.Name(fact.kind).removeprefix("FAILURE_KIND_").lower()
            return [_plain(fact, outcome=name, error=fact.error)]
        case PageRejected():
            name = RejectKind.Name(fact.kind).removeprefix("REJECT_KIND_").lower()
            return [_plain(fact, outcome=name, error=fact.reason)]
        case FetchReturned():
            name = ReturnReason.Name(fact.reason).removeprefix("RETURN_REASON_").lower()
            return [
                Attempt(
                    fact.task_id, fact.attempt, "fetch", to_datetime(fact.started_time), name,
                    http_status=fact.http_status or None, response_ms=fact.response_ms or None, proxy_id=fact.proxy_id or None,
                    error=fact.location or None,
                )
            ]  # fmt: skip
    return []


def _fetch(page: PageFetched) -> Attempt:
    return Attempt(
        page.task_id, page.attempt, "fetch", to_datetime(page.started_time), "fetched",
        http_status=page.http_status, response_ms=page.response_ms, proxy_id=page.proxy_id or None, page_key=page.body_key,
    )  # fmt: skip


def _parsed(fact: PageParsed | ParseFailed, outcome: str, error: str | None, *, fetch_known: bool) -> list[Attempt]:
    parse = Attempt(
        fact.page.task_id, fact.page.attempt, "parse", to_datetime(fact.started_time), outcome,
        response_ms=fact.duration_ms, page_key=fact.page.body_key, error=error,
    )  # fmt: skip
    return [parse] if fetch_known else [_fetch(fact.page), parse]


def _plain(fact: FetchFailed | PageRejected, *, outcome: str, error: str) -> Attempt:
    return Attempt(
        fact.task_id, fact.attempt, "fetch", to_datetime(fact.started_time), outcome,
        http_status=fact.http_status or None, response_ms=fact.response_ms, proxy_id=fact.proxy_id or None, error=error,
    )  # fmt: skip
