"""What a fact does to a task. Pure: row and fact in, change out, or nothing when the fact comes too late."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from google.protobuf.message import Message

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.lifecycle import FETCHING, PARSE_PHASE, TERMINAL, Status, allowed
from limpet.scheduler.retry import MAX_BLOCKS, MAX_REDIRECTS, RetryPolicy
from limpet.scheduler.store.queues import Due

RETRIED = frozenset(
    {
        FailureKind.FAILURE_KIND_NETWORK,
        FailureKind.FAILURE_KIND_TIMEOUT,
        FailureKind.FAILURE_KIND_SERVER_ERROR,
        FailureKind.FAILURE_KIND_PROXY,
    }
)
MAX_HOLD = 600.0
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
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
    kind: str = "page"
    priority: int = 5
    scheduled_at: datetime = NEVER
    group_key: str | None = None
    paused_from: str | None = None
    next_crawl_at: datetime | None = None
    has_children: bool = False
    webhook_url: str | None = None
    # From here on: what is decided.
    event: str = ""
    error: str | None = None
    note: str | None = None
    wait: float = 0.0
    moved_to: str | None = None
    page: PageFetched | None = None
    http_status: int | None = None
    response_ms: int | None = None
    proxy_id: int | None = None
    hold: float = 0.0
    hold_reason: str = ""
    # What is known of a robots.txt now: `read`, `absent` or `unreachable`.
    robots: str | None = None
    changed: bool = field(default=False)

    def become(self, event: str, target: Status) -> None:
        if not allowed(event, self.status, target):
            raise AssertionError(f"{event}: {self.status} to {target} is not in the table")
        self.status, self.event, self.changed = target, event, True

    def is_current(self, attempt: int) -> bool:
        return self.crawl_base < attempt <= self.attempt

    def is_live(self, attempt: int) -> bool:
        return attempt == self.attempt and self.status in FETCHING

    @property
    def place(self) -> Due:
        """Where it stands in the queue while it is pending."""
        return Due(self.domain_id, self.group_key or "", self.priority, self.scheduled_at, self.task_id)


def apply(row: TaskRow, fact: Message, *, policy: RetryPolicy, rng: Random) -> bool:
    """True when the fact changed the task. A late or repeated one changes nothing."""
    if row.status is Status.PAUSED:
        return _while_paused(row, fact)
    if row.kind == "robots" and not isinstance(fact, FetchReturned):
        return _robots(row, fact, policy=policy, rng=rng)
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


def _while_paused(row: TaskRow, fact: Message) -> bool:
    """A page that comes while its task is paused is kept, so that it is not fetched again afterwards."""
    page = fact if isinstance(fact, PageFetched) else fact.page if isinstance(fact, PageParsed) else None
    if page is None or not row.is_current(page.attempt) or row.paused_from in PARSE_PHASE or row.kind != "page":
        return False
    _keep(row, page)
    row.become("page_kept", Status.PAUSED)
    row.paused_from = Status.DOWNLOADED.value
    return True


def _robots(row: TaskRow, fact: Message, *, policy: RetryPolicy, rng: Random) -> bool:
    """The robots.txt of an origin: any clear answer will do; without one it is asked for again, for as long as it takes."""
    if isinstance(fact, PageParsed | ParseFailed) or not row.is_live(fact.attempt):  # type: ignore[attr-defined]
        return False
    row.http_status = fact.http_status or None  # type: ignore[attr-defined]
    row.response_ms, row.proxy_id = fact.response_ms, fact.proxy_id or None  # type: ignore[attr-defined]
    row.page = fact if isinstance(fact, PageFetched) else None
    row.robots = robots_answer(fact) or "unreachable"
    if row.robots != "unreachable":
        row.become("robots_read", Status.COMPLETED)
        row.note = told(fact)[:200] or None
        return True
    row.fetch_errors = min(row.fetch_errors + 1, 30_000)
    row.become("fetch_failed", Status.PENDING)
    retry_after = fact.retry_after_seconds if isinstance(fact, PageRejected) else 0
    row.wait = policy.after_block(row.fetch_errors, retry_after=retry_after, rng=rng)
    row.error, row.note = told(fact), "robots_unreachable"
    return True


def told(fact: Message) -> str:
    """What a fact says went wrong."""
    return fact.reason if isinstance(fact, PageRejected) else fact.error if isinstance(fact, FetchFailed) else ""


def robots_answer(fact: Message) -> str | None:
    """`read` or `absent`; None when the answer is not clear: the site is in trouble, and its pages have to wait."""
    if isinstance(fact, PageFetched):
        return "read"
    if isinstance(fact, PageRejected):
        # 429 means "not now"; any other refusal is an answer below 500, and means that there are no rules.
        return "absent" if 400 <= fact.http_status < 500 and fact.http_status != 429 else None
    if isinstance(fact, FetchFailed) and fact.kind not in RETRIED:
        return "absent"
    return None


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
    if row.status in TERMINAL or not row.is_current(parsed.page.attempt):
        return False
    if row.page is None:
        _keep(row, parsed.page)
    row.become("parsed", Status.COMPLETED)
    row.error = None
    return True


def _parse_failed(row: TaskRow, failed: ParseFailed) -> bool:
    # In `downloaded` the failure has been counted and nobody has been asked since: this one is a repeat.
    if row.status in TERMINAL | {Status.DOWNLOADED} or not row.is_current(failed.page.attempt):
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
    row.note = "retry" if again else None
    row.error, row.http_status, row.response_ms = failed.error, failed.http_status or None, failed.response_ms
    row.proxy_id = failed.proxy_id or None
    return True


def _rejected(row: TaskRow, rejected: PageRejected, *, policy: RetryPolicy, rng: Random) -> bool:
    if not row.is_live(rejected.attempt):
        return False
    row.error, row.http_status, row.response_ms = rejected.reason, rejected.http_status or None, rejected.response_ms
    row.proxy_id = rejected.proxy_id or None
    if rejected.kind == RejectKind.REJECT_KIND_NEEDS_RENDER:
        # Whoever lists what failed finds them by their first word.
        row.error, row.note = f"needs_render: {rejected.reason}", "needs_render"
    if rejected.kind != RejectKind.REJECT_KIND_BLOCKED:
        row.become("fetch_failed", Status.FAILED)
        return True
    row.blocks += 1
    again = row.blocks <= MAX_BLOCKS
    row.note = "cooling_down" if again else None
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
            return _lead_nowhere(row, f"more than {MAX_REDIRECTS} redirects, the last one to {returned.location}")
        try:
            row.moved_to = canonical(returned.location).url
        except BadUrl as error:
            return _lead_nowhere(row, f"redirected to {returned.location[:200]}, which {error}")
    if returned.reason == ReturnReason.RETURN_REASON_UNCHANGED:
        row.http_status, row.response_ms = returned.http_status or None, returned.response_ms
        row.proxy_id = returned.proxy_id or None
        row.become("unchanged", Status.COMPLETED)
        return True
    if returned.hold_seconds > 0:
        row.hold, row.hold_reason = min(returned.hold_seconds, MAX_HOLD), "no_proxy"
    gone = returned.reason == ReturnReason.RETURN_REASON_PAGE_GONE
    row.become("page_gone" if gone else "returned", Status.PENDING)
    return True


def _lead_nowhere(row: TaskRow, error: str) -> bool:
    """A robots.txt that cannot be reached by its redirects counts as absent (RFC 9309, section 2.3.1.2)."""
    if row.kind == "robots":
        row.robots, row.note = "absent", error[:200]
        row.become("robots_read", Status.COMPLETED)
    else:
        row.error = error
        row.become("returned", Status.FAILED)
    return True
