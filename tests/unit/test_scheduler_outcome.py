"""What every fact does to a task in every state: DECISIONS 9 and 12, DESIGN "Settle"."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import asdict
from random import Random

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, FetchStarted, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.scheduler.lifecycle import FETCHING, OPEN, PARSE_PHASE, TERMINAL, TRANSITIONS, Status, allowed
from limpet.scheduler.outcome import MAX_HOLD, RETRIED, TaskRow, apply
from limpet.scheduler.retry import (
    BLOCK_CAP,
    MAX_BLOCKS,
    MAX_REDIRECTS,
    RETRY_AFTER_CAP,
    RETRY_CAP,
    RetryPolicy,
)

POLICY = RetryPolicy(retry_base=60, block_base=30)
# The third attempt of a task whose current crawl began after the first.
CRAWL_BASE, LIVE = 1, 3
EARLIER_CRAWL, SAME_CRAWL, AFTER = 1, 2, 4
ATTEMPTS = (0, EARLIER_CRAWL, SAME_CRAWL, LIVE, AFTER)


def row(
    status: Status = Status.QUEUED,
    *,
    fetch_errors: int = 0,
    blocks: int = 0,
    parse_errors: int = 0,
    redirects: int = 0,
    max_retries: int = 3,
) -> TaskRow:
    return TaskRow(
        task_id=7,
        domain_id=1,
        status=status,
        attempt=LIVE,
        crawl_base=CRAWL_BASE,
        fetch_errors=fetch_errors,
        blocks=blocks,
        parse_errors=parse_errors,
        redirects=redirects,
        max_retries=max_retries,
        batch_id=None,
    )


def page(attempt: int = LIVE) -> PageFetched:
    return PageFetched(task_id=7, attempt=attempt, http_status=200, response_ms=12, proxy_id=5, body_key="k")


def failed(attempt: int = LIVE, kind: FailureKind.ValueType = FailureKind.FAILURE_KIND_NETWORK) -> FetchFailed:
    return FetchFailed(task_id=7, attempt=attempt, kind=kind, error="reset", response_ms=3)


def rejected(
    attempt: int = LIVE, kind: RejectKind.ValueType = RejectKind.REJECT_KIND_BLOCKED, retry_after: int = 0
) -> PageRejected:
    return PageRejected(
        task_id=7, attempt=attempt, kind=kind, reason="status 403", http_status=403, retry_after_seconds=retry_after
    )


def returned(
    attempt: int = LIVE, reason: ReturnReason.ValueType = ReturnReason.RETURN_REASON_LATE, hold: float = 0.0
) -> FetchReturned:
    location = "http://shop.test/new" if reason == ReturnReason.RETURN_REASON_REDIRECTED else ""
    return FetchReturned(task_id=7, attempt=attempt, reason=reason, hold_seconds=hold, location=location)


def parsed(attempt: int = LIVE) -> PageParsed:
    return PageParsed(page=page(attempt))


def unparsed(attempt: int = LIVE, *, retryable: bool = False) -> ParseFailed:
    return ParseFailed(page=page(attempt), error="ValueError: x", retryable=retryable)


def settle(task: TaskRow, fact: Message, *, seed: int = 1) -> bool:
    return apply(task, fact, policy=POLICY, rng=Random(seed))


MOVED = ReturnReason.RETURN_REASON_REDIRECTED
# Each kind of fact, the statuses in which it counts, the attempts it counts for, and what the task becomes.
CASES: dict[str, tuple[Callable[[int], Message], Set[Status], set[int], Status]] = {
    "page": (page, FETCHING | {Status.PENDING}, {SAME_CRAWL, LIVE}, Status.QUEUED_PARSE),
    "parsed": (parsed, FETCHING | PARSE_PHASE | {Status.PENDING}, {SAME_CRAWL, LIVE}, Status.COMPLETED),
    "unparsed": (
        unparsed,
        FETCHING | {Status.PENDING, Status.QUEUED_PARSE, Status.PARSING},
        {SAME_CRAWL, LIVE},
        Status.FAILED,
    ),
    "failed": (failed, FETCHING, {LIVE}, Status.PENDING),
    "failed for good": (
        lambda attempt: failed(attempt, FailureKind.FAILURE_KIND_CLIENT_ERROR), FETCHING, {LIVE}, Status.FAILED,
    ),
    "blocked": (rejected, FETCHING, {LIVE}, Status.PENDING),
    "garbage": (
        lambda attempt: rejected(attempt, RejectKind.REJECT_KIND_GARBAGE), FETCHING, {LIVE}, Status.FAILED,
    ),
    "needs render": (
        lambda attempt: rejected(attempt, RejectKind.REJECT_KIND_NEEDS_RENDER), FETCHING, {LIVE}, Status.FAILED,
    ),
    "returned": (returned, FETCHING, {LIVE}, Status.PENDING),
    "moved": (lambda attempt: returned(attempt, MOVED), FETCHING, {LIVE}, Status.PENDING),
}  # fmt: skip


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("name", CASES)
def test_a_fact_counts_exactly_where_it_should_and_elsewhere_changes_nothing(name: str, status: Status) -> None:
    make, statuses, attempts, target = CASES[name]
    for attempt in ATTEMPTS:
        task = row(status)
        before = asdict(task)
        fact = make(attempt)
        if status in statuses and attempt in attempts:
            assert settle(task, fact), (name, status, attempt)
            assert (task.status, task.changed) == (target, True)
        elif status is Status.PAUSED and name in ("page", "parsed") and attempt in attempts:
            assert settle(task, fact), "a page that comes while its task is paused is kept"
            assert (task.status, task.paused_from) == (Status.PAUSED, "downloaded")
        else:
            assert not settle(task, fact), (name, status, attempt)
            assert asdict(task) == before


@pytest.mark.parametrize("name", CASES)
def test_the_same_fact_a_second_time_changes_nothing(name: str) -> None:
    task = row()
    fact = CASES[name][0](LIVE)
    assert settle(task, fact)
    once = asdict(task)
    assert not settle(task, fact)
    assert asdict(task) == once


def test_a_retryable_parse_failure_is_counted_once_however_often_it_is_heard() -> None:
    task = row(Status.PARSING)
    fact = unparsed(retryable=True)
    assert [settle(task, fact) for _ in range(5)] == [True, False, False, False, False]
    assert (task.status, task.parse_errors) == (Status.DOWNLOADED, 1)


def test_parse_failures_are_tried_again_up_to_the_limit_and_count_apart_from_fetch_errors() -> None:
    task = row(Status.PARSING, max_retries=2, fetch_errors=2)
    ends = []
    for _ in range(3):
        assert settle(task, unparsed(retryable=True))
        ends.append(task.status)
        task.status = Status.QUEUED_PARSE if task.status is Status.DOWNLOADED else task.status
    assert ends == [Status.DOWNLOADED, Status.DOWNLOADED, Status.FAILED]
    assert (task.parse_errors, task.fetch_errors) == (3, 2)


def test_the_first_good_page_wins_and_an_older_failure_does_not_undo_it() -> None:
    task = row()
    assert settle(task, page(SAME_CRAWL))
    assert (task.status, task.page) == (Status.QUEUED_PARSE, page(SAME_CRAWL))
    for late in (page(LIVE), failed(LIVE), rejected(LIVE), returned(LIVE), failed(SAME_CRAWL)):
        assert not settle(task, late)
    assert task.page == page(SAME_CRAWL)
    assert (task.http_status, task.response_ms, task.proxy_id, task.error) == (200, 12, 5, None)


def test_a_good_page_after_a_failure_of_the_same_crawl_still_counts() -> None:
    task = row()
    assert settle(task, failed())
    assert (task.error, task.wait > 0) == ("reset", True)
    assert settle(task, page(SAME_CRAWL))
    assert (task.status, task.error) == (Status.QUEUED_PARSE, None)


def test_a_parsed_page_was_fetched_whoever_is_heard_first() -> None:
    task = row()
    assert settle(task, parsed())
    assert (task.status, task.page, task.http_status) == (Status.COMPLETED, page(), 200)
    assert not settle(task, page())


@pytest.mark.parametrize("kind", [kind for kind in FailureKind.values() if kind])
def test_errors_that_can_pass_are_retried_up_to_the_limit_and_the_others_never(kind: FailureKind.ValueType) -> None:
    tries = 0
    task = row(max_retries=3)
    while task.status is not Status.FAILED:
        task.status = Status.CRAWLING
        assert settle(task, failed(kind=kind))
        tries += 1
    passing = {
        FailureKind.FAILURE_KIND_NETWORK,
        FailureKind.FAILURE_KIND_TIMEOUT,
        FailureKind.FAILURE_KIND_SERVER_ERROR,
        FailureKind.FAILURE_KIND_PROXY,
    }
    assert tries == (4 if kind in passing else 1)
    assert (kind in RETRIED) == (kind in passing)
    assert (task.error, task.wait) == ("reset", 0.0)


def test_blocks_do_not_use_up_retries_and_have_a_ceiling_of_their_own() -> None:
    task = row(max_retries=0)
    for count in range(1, MAX_BLOCKS + 1):
        task.status = Status.CRAWLING
        assert settle(task, rejected())
        assert (task.status, task.blocks, task.fetch_errors) == (Status.PENDING, count, 0)
    task.status = Status.CRAWLING
    assert settle(task, rejected())
    assert (task.status, task.wait, task.fetch_errors) == (Status.FAILED, 0.0, 0)
    assert (task.error, task.http_status) == ("status 403", 403)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 200), st.integers(0, 2**32), st.floats(0.01, 1000))
def test_the_wait_after_an_error_doubles_with_jitter_and_never_passes_its_cap(
    count: int, seed: int, base: float
) -> None:
    wait = RetryPolicy(retry_base=base).after_error(count + 1, rng=Random(seed))
    plain = min(RETRY_CAP, base * 2.0 ** min(count, 60))
    assert 0.75 * plain <= wait <= min(RETRY_CAP, 1.25 * plain)


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 200), st.integers(0, 2**32))
def test_the_wait_after_a_block_never_passes_five_minutes_unless_the_site_says_so(count: int, seed: int) -> None:
    wait = POLICY.after_block(count, retry_after=0, rng=Random(seed))
    assert 0.75 * 30 <= wait <= BLOCK_CAP == 300


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 10**6), st.integers(1, 10))
def test_the_sites_own_retry_after_holds_task_and_domain_up_to_an_hour(seconds: int, blocks: int) -> None:
    task = row(blocks=blocks - 1)
    assert settle(task, rejected(retry_after=seconds))
    assert task.wait == task.hold == min(seconds, RETRY_AFTER_CAP)
    assert task.hold_reason == "retry_after"


def test_a_block_without_retry_after_does_not_hold_the_domain() -> None:
    task = row()
    assert settle(task, rejected())
    assert task.wait > 0
    assert (task.hold, task.hold_reason) == (0.0, "")


def test_a_returned_order_costs_nothing_and_holds_the_domain_only_as_long_as_it_says() -> None:
    task = row(max_retries=0)
    assert settle(task, returned(reason=ReturnReason.RETURN_REASON_NO_PROXY, hold=9.5))
    assert (task.status, task.wait, task.hold, task.hold_reason) == (Status.PENDING, 0.0, 9.5, "no_proxy")
    assert (task.fetch_errors, task.blocks, task.redirects, task.error) == (0, 0, 0, None)
    patient = row()
    assert settle(patient, returned(hold=1e9))
    assert patient.hold == MAX_HOLD


def test_redirects_are_followed_a_bounded_number_of_times() -> None:
    task = row()
    for count in range(1, MAX_REDIRECTS + 1):
        task.status = Status.CRAWLING
        assert settle(task, returned(reason=MOVED))
        assert (task.status, task.redirects, task.moved_to) == (Status.PENDING, count, "http://shop.test/new")
    task.status = Status.CRAWLING
    assert settle(task, returned(reason=MOVED))
    assert task.status is Status.FAILED
    assert "http://shop.test/new" in (task.error or "")
    assert task.fetch_errors == 0


def test_what_is_no_fact_about_a_task_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError, match="FetchStarted"):
        settle(row(), FetchStarted(task_id=7, attempt=LIVE))


def test_a_change_that_is_not_in_the_table_cannot_be_made() -> None:
    for event, rule in TRANSITIONS.items():
        for source in Status:
            for target in Status:
                task = row(source)
                if source in rule.sources and target in rule.targets:
                    task.become(event, target)
                    assert task.status is target
                else:
                    with pytest.raises(AssertionError, match="not in the table"):
                        task.become(event, target)
                    assert (task.status, task.changed) == (source, False)


def test_the_table_knows_ten_statuses_and_leaves_terminal_ones_only_when_asked() -> None:
    assert {status.value for status in Status} == {
        "pending", "queued", "crawling", "downloaded", "queued_parse", "parsing", "completed", "failed", "paused",
        "cancelled",
    }  # fmt: skip
    out_of_terminal = {event for event, rule in TRANSITIONS.items() if rule.sources & TERMINAL}
    assert out_of_terminal == {"recrawled", "restarted", "reparsed"}
    assert {event for event, rule in TRANSITIONS.items() if Status.PENDING not in rule.sources} >= {"fetch_started"}
    assert set(Status) - {Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.PAUSED} == OPEN


FACTS = st.builds(
    lambda name, attempt, retryable: (
        unparsed(attempt, retryable=True) if name == "unparsed" and retryable else CASES[name][0](attempt)
    ),
    st.sampled_from(sorted(CASES)),
    st.sampled_from(ATTEMPTS),
    st.booleans(),
)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(list(Status)), st.lists(FACTS | st.just(None), max_size=25), st.integers(0, 5))
def test_no_sequence_of_facts_makes_a_change_that_is_not_in_the_table(
    start: Status, facts: list[Message | None], retries: int
) -> None:
    """None stands for the dispatcher, which grants the next attempt whenever it may."""
    task = row(start, max_retries=retries)
    for fact in facts:
        before = asdict(task)
        if fact is None:
            if task.status is Status.PENDING:
                task.status, task.attempt = Status.QUEUED, task.attempt + 1
            continue
        changed = settle(task, fact)
        if not changed:
            assert asdict(task) == before
            continue
        assert any(allowed(event, before["status"], task.status) for event in TRANSITIONS)
        assert before["status"] not in TERMINAL
        assert before["status"] is not Status.PAUSED or task.status is Status.PAUSED
        assert task.attempt == before["attempt"]
        assert task.fetch_errors <= retries + 1
        assert task.blocks <= MAX_BLOCKS + 1
        assert task.redirects <= MAX_REDIRECTS + 1
        assert 0 <= task.wait <= max(RETRY_CAP, RETRY_AFTER_CAP)
        if task.status is Status.QUEUED_PARSE:
            assert task.page is not None
