"""For every gate that a task can stand at: its name, a sentence that says why, and what wakes it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from limpet.scheduler.facts import MOST_AHEAD, Facts, RobotsFacts, TaskFacts, Wakes, Why
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.politeness import Pace
from limpet.scheduler.queue_reasons import estimate
from limpet.scheduler.reasons import reason
from tests.support.paces import make_pace as plain_pace

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SOON, PAST = NOW + timedelta(seconds=42), NOW - timedelta(seconds=3)
AT_SOON = "2026-03-01 12:00:42 UTC"
ROBOTS = "http://shop.test/robots.txt"


def make_pace(**values: Any) -> Pace:
    return plain_pace(**{"obey_robots": True, "user_agent": "Limpet", **values})


TASK = TaskFacts(
    task_id=7, url="http://shop.test/p", goes_to="http://shop.test/p", domain="shop.test", kind="page",
    status=Status.PENDING, attempt=1, priority=5, scheduled_at=PAST, group_key=None, fetch_errors=0, blocks=0,
    parse_errors=0, max_retries=3, error_message=None, note=None, next_crawl_at=None, completed_at=None, updated_at=PAST,
    paused_from=None, awaits_parent=False, on_parent_failure="cancel", parent_task_id=None, parent_url=None,
    parent_status=None, in_queue=True, in_calendar=False, slot_at=None, permit_until=None, parse_until=None,
    group_in_flight=0, group_limit=5, changed_at=PAST, event="submitted", actor="api", reason=None, now=NOW,
)  # fmt: skip
READ = RobotsFacts(ROBOTS, "read", PAST, None)


@dataclass(frozen=True)
class Case:
    why: Why
    words: tuple[str, ...]
    wakes: Wakes
    at: datetime | None = None
    task: dict[str, Any] = field(default_factory=dict)
    pace: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    then: str = ""


def waiting(**values: Any) -> dict[str, Any]:
    return {"in_queue": False, "in_calendar": True, "scheduled_at": SOON, **values}


def out(status: Status, **values: Any) -> dict[str, Any]:
    return {"status": status, "in_queue": False, "slot_at": NOW, "permit_until": SOON, **values}


def stored(status: Status, until: datetime = SOON, **values: Any) -> dict[str, Any]:
    return {"status": status, "in_queue": False, "parse_until": until, **values}


def ended(status: Status, **values: Any) -> dict[str, Any]:
    return {"status": status, "in_queue": False, "completed_at": PAST, **values}


OPEN = {"breaker_state": "open", "breaker_opened_at": SOON - timedelta(seconds=60), "breaker_reason": "status 403"}
CASES = [
    Case(
        Why.PARENT,
        ("task 3", "http://shop.test/", "crawling"),
        Wakes.PARENT_ENDS,
        task={"in_queue": False, "awaits_parent": True, "parent_task_id": 3, "parent_url": "http://shop.test/",
              "parent_status": "crawling"},
        then="it is cancelled",
    ),
    Case(Why.SCHEDULED, ("scheduled for " + AT_SOON,), Wakes.CLOCK, SOON, task=waiting(), then="enters the queue"),
    Case(
        Why.SCHEDULED,
        (AT_SOON,),
        Wakes.CLOCK,
        SOON,
        task=waiting(),
        pace={"held_until": SOON + timedelta(hours=1), "held_reason": "no_proxy"},
        then="but then shop.test has no proxy free, until 2026-03-01 13:00:42 UTC",
    ),
    Case(
        Why.RETRY,
        ("retry 2 of 3", AT_SOON, "connection reset"),
        Wakes.CLOCK,
        SOON,
        task=waiting(note="retry", fetch_errors=2, error_message="connection reset"),
    ),
    Case(
        Why.RETRY,
        ("try 3 to read this robots.txt", AT_SOON, "status 500"),
        Wakes.CLOCK,
        SOON,
        task=waiting(kind="robots", note="robots_unreachable", fetch_errors=2, error_message="status 500"),
    ),
    Case(
        Why.COOLING_DOWN,
        ("block 4 of 10", "CAPTCHA", "cools down until " + AT_SOON),
        Wakes.CLOCK,
        SOON,
        task=waiting(note="cooling_down", blocks=4, error_message="CAPTCHA"),
    ),
    Case(
        Why.COOLING_DOWN,
        ("as the site asked until " + AT_SOON,),
        Wakes.CLOCK,
        SOON,
        task=waiting(note="cooling_down", blocks=1),
        pace={"held_until": SOON, "held_reason": "retry_after"},
    ),
    Case(Why.RECURRING, ("missed", AT_SOON), Wakes.CLOCK, SOON, task=waiting(event="recrawled")),
    Case(Why.INACTIVE, ("shop.test is switched off",), Wakes.PERSON, pace={"is_active": False}),
    Case(
        Why.MAINTENANCE_WINDOW,
        ("maintenance window", "11:00 to 13:30 UTC", "until 2026-03-01 13:30:00 UTC"),
        Wakes.CLOCK,
        datetime(2026, 3, 1, 13, 30, tzinfo=UTC),
        pace={"maintenance_start": time(11), "maintenance_end": time(13, 30)},
        facts={"ahead": 2},
        then="after 2 tasks",
    ),
    Case(
        Why.MAINTENANCE_WINDOW,
        ("maintenance window",),
        Wakes.CLOCK,
        datetime(2026, 3, 1, 13, 30, tzinfo=UTC),
        pace={"maintenance_start": time(11), "maintenance_end": time(13, 30), **OPEN, "breaker_cooldown_seconds": 1e5},
        then="but then shop.test refused us",
    ),
    Case(Why.BREAKER_OPEN, ("refused us", "status 403", "until " + AT_SOON), Wakes.CLOCK, SOON, pace=OPEN, then="probe"),
    Case(
        Why.RETRY_AFTER,
        ("asked us to come back later", AT_SOON),
        Wakes.CLOCK,
        SOON,
        pace={"held_until": SOON, "held_reason": "retry_after"},
    ),
    Case(
        Why.NO_PROXY, ("no proxy free", AT_SOON), Wakes.CLOCK, SOON, pace={"held_until": SOON, "held_reason": "no_proxy"}
    ),
    Case(Why.HELD, ("is held", AT_SOON), Wakes.CLOCK, SOON, pace={"held_until": SOON, "held_reason": "a later version"}),
    Case(
        Why.ROBOTS_UNREAD,
        (ROBOTS, "has not been read"),
        Wakes.ROBOTS_READ,
        facts={"missing": RobotsFacts(ROBOTS, "unread", None, None), "word": "unread"},
    ),
    Case(
        Why.ROBOTS_UNREACHABLE,
        (ROBOTS, "cannot be reached since 2026-03-01 11:59:57 UTC", "status 500"),
        Wakes.ROBOTS_READ,
        SOON,
        facts={"missing": RobotsFacts(ROBOTS, "unreachable", None, "status 500", PAST, SOON, 4), "word": "unread"},
        then=f"asked for again at {AT_SOON}",
    ),
    Case(
        Why.ROBOTS_FORBIDS, (ROBOTS, "forbids it"), Wakes.CLOCK, facts={"word": "forbidden"}, then="robots_disallowed"
    ),
    Case(
        Why.BREAKER_HALF_OPEN,
        ("status 403", "one is under way"),
        Wakes.PERMIT_BACK,
        pace={"breaker_state": "half_open", "in_flight": 1, "breaker_reason": "status 403", "breaker_in_a_row": 2},
        then="3 more of them",
    ),
    Case(
        Why.BREAKER_HALF_OPEN,
        ("one is under way",),
        Wakes.PERMIT_BACK,
        pace={**OPEN, "breaker_opened_at": NOW - timedelta(seconds=61), "in_flight": 2},
    ),
    Case(Why.DOMAIN_FULL, ("5 of 5 requests in flight",), Wakes.PERMIT_BACK, pace={"in_flight": 5}),
    Case(
        Why.DOMAIN_FULL,
        ("2 of 2 requests in flight", "lowered from 5"),
        Wakes.PERMIT_BACK,
        pace={"in_flight": 2, "limit_now": 2},
    ),
    Case(
        Why.GROUP_FULL,
        ("group north of shop.test", "2 of 2"),
        Wakes.PERMIT_BACK,
        task={"group_key": "north", "group_in_flight": 2, "group_limit": 2},
        then="of its group",
    ),
    Case(Why.PLATFORM_FULL, ("64 orders are out",), Wakes.PERMIT_BACK, facts={"permits_out": 64, "window": 64, "fetchers": 1}),
    Case(Why.NO_FETCHER, ("no fetcher",), Wakes.PERMIT_BACK, facts={"permits_out": 64, "window": 64, "fetchers": 0}),
    Case(Why.NO_FETCHER, ("no fetcher",), Wakes.PERMIT_BACK, SOON, task=out(Status.QUEUED), facts={"fetchers": 0}),
    Case(
        Why.BEHIND_OTHERS,
        ("1,000 tasks of shop.test come before it", "about 2026-03-01 12:18:40 UTC"),
        Wakes.CLOCK,
        NOW + 1000 * timedelta(seconds=1.12),
        pace={"crawl_delay_seconds": 1.0},
        facts={"ahead": 1000},
        then="permit is granted",
    ),
    Case(Why.BEHIND_OTHERS, ("over 10,000 tasks",), Wakes.CLOCK, facts={"ahead": MOST_AHEAD + 1}),
    Case(Why.BEHIND_OTHERS, ("1 task of",), Wakes.CLOCK, pace={"breaker_state": "half_open"}, facts={"ahead": 1}),
    Case(
        Why.NEXT_SLOT,
        ("next slot is at " + AT_SOON,),
        Wakes.CLOCK,
        SOON,
        pace={"crawl_delay_seconds": 60.0, "next_slot_at": SOON},
    ),
    Case(Why.NEXT, ("nothing keeps it",), Wakes.CLOCK, NOW),
    Case(
        Why.ORDERED,
        ("attempt 1 is out", "from 2026-03-01 12:00:00 UTC to 2026-03-01 12:00:15 UTC"),
        Wakes.PERMIT_BACK,
        SOON,
        task=out(Status.QUEUED),
    ),
    Case(Why.FETCHING, ("under way", AT_SOON), Wakes.PERMIT_BACK, SOON, task=out(Status.CRAWLING)),
    Case(
        Why.PERMIT_EXPIRED,
        ("no fetcher reported", "11:59:57"),
        Wakes.CLOCK,
        PAST,
        task=out(Status.QUEUED, permit_until=PAST),
        then="within a second",
    ),
    Case(
        Why.PARSE_NEXT,
        ("parse error 1 of 3: no title",),
        Wakes.CLOCK,
        PAST,
        task=stored(Status.DOWNLOADED, PAST, parse_errors=1, error_message="no title"),
    ),
    Case(Why.PARSE_ORDERED, ("waits for a parser",), Wakes.PARSER, SOON, task=stored(Status.QUEUED_PARSE), then=AT_SOON),
    Case(Why.PARSING, ("in hand",), Wakes.PARSER, SOON, task=stored(Status.PARSING), then=AT_SOON),
    Case(Why.PARSE_EXPIRED, ("no parser reported",), Wakes.CLOCK, PAST, task=stored(Status.PARSING, PAST)),
    Case(
        Why.PAUSED,
        ("paused by operator at 2026-03-01 11:59:57 UTC", "crawling"),
        Wakes.PERSON,
        task={"status": Status.PAUSED, "in_queue": False, "paused_from": "crawling", "actor": "operator"},
        then="due",
    ),
    Case(
        Why.PAUSED,
        ("downloaded",),
        Wakes.PERSON,
        task={"status": Status.PAUSED, "in_queue": False, "paused_from": "downloaded"},
        then="stored page is parsed",
    ),
    Case(
        Why.COMPLETED,
        ("completed at 2026-03-01 11:59:57 UTC",),
        Wakes.CLOCK,
        SOON,
        task=ended(Status.COMPLETED, next_crawl_at=SOON),
        then="crawled again at " + AT_SOON,
    ),
    Case(Why.COMPLETED, ("completed",), Wakes.PERSON, task=ended(Status.COMPLETED), then="nothing"),
    Case(Why.FAILED, ("given up", "status 404"), Wakes.PERSON, task=ended(Status.FAILED, error_message="status 404")),
    Case(Why.CANCELLED, ("cancelled by ann",), Wakes.PERSON, task=ended(Status.CANCELLED, actor="ann")),
    Case(
        Why.ROBOTS_DISALLOWED,
        (ROBOTS, "forbids it"),
        Wakes.PERSON,
        task=ended(Status.CANCELLED, error_message="robots_disallowed"),
        facts={"word": "forbidden"},
        then="nothing",
    ),
    Case(
        Why.ROBOTS_DISALLOWED,
        ("forbids it",),
        Wakes.PERSON,
        task=ended(Status.CANCELLED, error_message="robots_disallowed"),
        then="today it is allowed",
    ),
    Case(
        Why.PARENT_FAILED,
        ("cancelled", "task 3, which it waited for, ended as failed"),
        Wakes.PERSON,
        task=ended(
            Status.CANCELLED, event="parent_failed", error_message="task 3, which it waited for, ended as failed"
        ),
    ),
    Case(Why.MISPLACED, ("in no queue",), Wakes.PERSON, task={"in_queue": False}),
    Case(Why.MISPLACED, ("no permit",), Wakes.PERSON, task={"status": Status.QUEUED, "in_queue": False}),
    Case(Why.MISPLACED, ("no parser owes",), Wakes.PERSON, task={"status": Status.PARSING, "in_queue": False}),
]  # fmt: skip


def facts_of(case: Case) -> Facts:
    plain = Facts(
        task=replace(TASK, **case.task),
        pace=make_pace(**case.pace),
        word="allowed",
        robots=READ,
        missing=None,
        ahead=0,
        lead=0.4,
        patience=15.0,
        permits_out=0,
        window=None,
        fetchers=None,
    )
    return replace(plain, **case.facts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.why.value)
def test_s24_every_gate_is_named_says_why_and_what_opens_it(case: Case) -> None:
    found = reason(facts_of(case))
    assert found.gate is case.why, found.sentence
    assert [word for word in case.words if word not in found.sentence] == [], found.sentence
    assert (found.wakes, found.wakes_at) == (case.wakes, case.at)
    assert case.then in found.then
    assert found.sentence, "there is always a sentence"
    assert "None" not in found.sentence + found.then


def test_s24_no_gate_is_without_a_case() -> None:
    assert {case.why for case in CASES} == set(Why)


def test_s24_every_status_is_explained() -> None:
    assert {facts_of(case).task.status for case in CASES} == set(Status)


def test_s24_a_robots_txt_waits_for_no_robots_txt_and_a_domain_may_not_obey_any() -> None:
    missing = RobotsFacts(ROBOTS, "unread", None, None)
    for case in (
        Case(Why.NEXT, (), Wakes.CLOCK, task={"kind": "robots"}, facts={"missing": missing}),
        Case(Why.NEXT, (), Wakes.CLOCK, pace={"obey_robots": False}, facts={"missing": missing}),
    ):
        assert reason(facts_of(case)).gate is Why.NEXT


@pytest.mark.parametrize(
    ("pace", "ahead"), [({}, 3), ({"crawl_delay_seconds": 1.0}, MOST_AHEAD + 1), ({"breaker_state": "half_open"}, 3)]
)
def test_s24_no_time_is_named_where_none_can_be_known(pace: dict[str, Any], ahead: int) -> None:
    case = Case(Why.BEHIND_OTHERS, (), Wakes.CLOCK, pace=pace, facts={"ahead": ahead})
    assert estimate(facts_of(case)) is None
