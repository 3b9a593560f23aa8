"""What facts say about the site rather than about their tasks: it gave a page, or it refused us. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.message import Message

from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit.clock import to_datetime
from limpet.scheduler.breaker_board import Answer
from limpet.scheduler.give_back import News
from limpet.scheduler.lifecycle import PARSE_PHASE, Status
from limpet.scheduler.outcome import TaskRow

_SAYS_NOTHING_NEW = (ReturnReason.RETURN_REASON_UNCHANGED, ReturnReason.RETURN_REASON_PAGE_GONE)


def answer_of(fact: Message) -> Answer | None:
    """None where the fact says nothing about the site: it was not reached, or nobody asked it."""
    if isinstance(fact, PageParsed):
        fact = fact.page
    if isinstance(fact, PageFetched):
        return Answer(good=True, started_at=to_datetime(fact.started_time), proxy_id=fact.proxy_id)
    if isinstance(fact, PageRejected) and fact.kind == RejectKind.REJECT_KIND_BLOCKED:
        return Answer(
            good=False,
            started_at=to_datetime(fact.started_time),
            proxy_id=fact.proxy_id,
            hard=fact.hard,
            why=fact.reason,
        )
    if isinstance(fact, FetchFailed) and fact.kind == FailureKind.FAILURE_KIND_CLIENT_ERROR:
        # A page that is not there is an answer like any other.
        return Answer(good=True, started_at=to_datetime(fact.started_time), proxy_id=fact.proxy_id)
    if isinstance(fact, FetchReturned) and fact.reason in _SAYS_NOTHING_NEW:
        return Answer(good=True, started_at=to_datetime(fact.started_time), proxy_id=fact.proxy_id)
    return None


def news_of(taken: Sequence[Message], tasks: Mapping[int, TaskRow], before: Mapping[int, Status]) -> dict[int, News]:
    """By domain. A page whose fetch has been heard of before says nothing new; robots.txt blames nobody."""
    news: dict[int, News] = {}
    for fact in taken:
        parsed = isinstance(fact, PageParsed)
        source = fact.page if isinstance(fact, PageParsed | ParseFailed) else fact
        task = tasks[source.task_id]  # type: ignore[attr-defined]
        if task.kind not in ("page", "list") or (parsed and before[task.task_id] in PARSE_PHASE):
            continue
        if answer := answer_of(fact):
            news.setdefault(task.domain_id, News()).answers.append((task.group_key, answer))
    for task in tasks.values():
        if not task.changed:
            continue
        told = news.setdefault(task.domain_id, News())
        if task.hold > told.hold_seconds:
            told.hold_seconds, told.hold_reason = task.hold, task.hold_reason
        if task.status is Status.PENDING and task.wait <= 0:
            told.due.append((task.group_key, task.priority))
    return news
