"""What a fact does to a task. Pure: row and fact in, change out, or nothing when the fact comes too late."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from google.protobuf.message import Message

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.lifecycle import FETCHING, TERMINAL, Status, allowed
from limpet.scheduler.retry import MAX_BLOCKS, MAX_REDIRECTS, RetryPolicy

RETRIED = frozenset(
    {
        FailureKind.FAILURE_KIND_NETWORK,
        FailureKind.FAILURE_KIND_TIMEOUT,
        FailureKind.FAILURE_KIND_SERVER_ERROR,
        FailureKind.FAILURE_KIND_PROXY,
    }
)
MAX_HOLD = 600.0


@dataclass
class TaskRow:
    """A locked task, with what decides about it. It changes as the facts of one batch are applied in turn."""

    task_id: int
    domain_id: int
    status: Status
    attempt: int
    crawl_base: int
    fetch_errors: int
    blocks: int
    parse_errors: int
    redirects: int
    max_retries: int
    batch_id: int | None
    follow: bool = False
    error: str | None = None
    wait: float = 0.0
    moved_to: str | None = None
    page: PageFetched | None = None
    http_status: int | None = None
    response_ms: int | None = None
    proxy_id: int | None = None
    hold: float = 0.0
    hold_reason: str = ""
    changed: bool = field(default=False)

    def become(self, event: str, target: Status) -> None:
        if not allowed(event, self.status, target):
            raise AssertionError(f"{event}: {self.status} to {target} is not in the table")
        self.status, self.changed = target, True

    def is_current(self, attempt: int) -> bool:
        return self.crawl_base < attempt <= self.attempt

    def is_live(self, attempt: int) -> bool:
        return attempt == self.attempt and self.status in FETCHING


def apply(row: TaskRow, fact: Message, *, policy: RetryPolicy, rng: Random) -> bool:
    """True when the fact changed the task. A late or repeated one changes nothing."""
    match fact:
        case PageFetched():
            return _page_fetched(row, fact)
        case PageParsed():
            return _parsed(row, fact)
        case ParseFailed():
            return _parse_failed(row, fact)
        case FetchFailed():
            return _failed(row, fact, policy=policy, rng=rng)
        case PageRejected():
            return _rejected(row, fact, policy=policy, rng=rng)
        case FetchReturned():
            return _returned(row, fact)
    raise AssertionError(f"{type(fact).__name__} is not a fact about a task")


def _page_fetched(row: TaskRow, page: PageFetched) -> bool:
    if row.status not in FETCHING | {Status.PENDING} or not row.is_current(page.attempt):
        return False
    row.become("page_fetched", Status.QUEUED_PARSE)
    _keep(row, page)
    return True


def _keep(row: TaskRow, page: PageFetched) -> None:
    row.page, row.http_status, row.response_ms, row.proxy_id = (
        page,
        page.http_status,
        page.response_ms,
        page.proxy_id or None,
    )
    row.error = None


def _parsed(row: TaskRow, parsed: PageParsed) -> bool:
    if row.status in TERMINAL | {Status.PAUSED} or not row.is_current(parsed.page.attempt):
        return False
    if row.page is None:
        _keep(row, parsed.page)
    row.become("parsed", Status.COMPLETED)
    row.error = None
    return True


def _parse_failed(row: TaskRow, failed: ParseFailed) -> bool:
    # In `downloaded` the failure has been counted and nobody has been asked since: this one is a repeat.
    if row.status in TERMINAL | {Status.PAUSED, Status.DOWNLOADED} or not row.is_current(failed.page.attempt):
        return False
    if row.page is None:
        _keep(row, failed.page)
    row.parse_errors += 1
    again = failed.retryable and row.parse_errors <= row.max_retries
    row.become("parse_failed", Status.DOWNLOADED if again else Status.FAILED)
    row.error = failed.error
    return True


def _failed(row: TaskRow, failed: FetchFailed, *, policy: RetryPolicy, rng: Random) -> bool:
    if not row.is_live(failed.attempt):
        return False
    row.fetch_errors += 1
    again = failed.kind in RETRIED and row.fetch_errors <= row.max_retries
    row.become("fetch_failed", Status.PENDING if again else Status.FAILED)
    row.wait = policy.after_error(row.fetch_errors, rng=rng) if again else 0.0
    row.error, row.http_status, row.response_ms = failed.error, failed.http_status or None, failed.response_ms
    row.proxy_id = failed.proxy_id or None
    return True


def _rejected(row: TaskRow, rejected: PageRejected, *, policy: RetryPolicy, rng: Random) -> bool:
    if not row.is_live(rejected.attempt):
        return False
    row.error, row.http_status, row.response_ms = rejected.reason, rejected.http_status or None, rejected.response_ms
    row.proxy_id = rejected.proxy_id or None
    if rejected.kind != RejectKind.REJECT_KIND_BLOCKED:
        row.become("fetch_failed", Status.FAILED)
        return True
    row.blocks += 1
    again = row.blocks <= MAX_BLOCKS
    row.become("blocked", Status.PENDING if again else Status.FAILED)
    row.wait = policy.after_block(row.blocks, retry_after=rejected.retry_after_seconds, rng=rng) if again else 0.0
    if rejected.retry_after_seconds > 0:
        row.hold, row.hold_reason = row.wait, "retry_after"
    return True


def _returned(row: TaskRow, returned: FetchReturned) -> bool:
    if not row.is_live(returned.attempt):
        return False
    if returned.reason == ReturnReason.RETURN_REASON_REDIRECTED:
        row.redirects += 1
        if row.redirects > MAX_REDIRECTS:
            row.become("returned", Status.FAILED)
            row.error = f"more than {MAX_REDIRECTS} redirects, the last one to {returned.location}"
            return True
        try:
            row.moved_to = canonical(returned.location).url
        except BadUrl as error:
            row.become("returned", Status.FAILED)
            row.error = f"redirected to {returned.location[:200]}, which {error}"
            return True
    if returned.hold_seconds > 0:
        row.hold, row.hold_reason = min(returned.hold_seconds, MAX_HOLD), "no_proxy"
    row.become("returned", Status.PENDING)
    return True
