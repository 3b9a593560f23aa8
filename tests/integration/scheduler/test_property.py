"""Whatever people and events do, in whatever order: no illegal change, no limit passed, no counter wrong, nothing stuck."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.message import Message
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)

from limpet.cli.local.postgres import Postgres
from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, OrderKind, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit.clock import to_stamp
from limpet.scheduler.lifecycle import Status, allowed
from limpet.scheduler.store.permits import Permit
from tests.support.machine import Machine, run_machine
from tests.support.scheduling import come_due, grant, make_reclaim, make_settle
from tests.support.task_states import check_all_is_right

EXAMPLES, STEPS = 12, 30
HOST, LIMIT, PER_GROUP = "shop.test", 6, 2
TABLES = (
    "crawl_tasks, due_tasks, waiting_tasks, permits, parse_leases, parent_ends, attempts, audit, link_parts, domain_groups,"
    " robots, batches, domains, ready_domains, webhook_deliveries, idempotency_keys, domain_changes"
)
NUMBERS = st.integers(0, 17)
ACTIONS = ("pause", "resume", "cancel", "restart", "restart-parsing")
CHILDREN = st.integers(12, 17)
# A child waits for as long as an ancestor is paused; everything else that has not come to rest is stuck.
STUCK = """
    WITH RECURSIVE held AS (
        SELECT task_id FROM crawl_tasks WHERE status = 'paused'
         UNION SELECT child.task_id FROM crawl_tasks AS child JOIN held ON child.parent_task_id = held.task_id
         WHERE child.awaits_parent
    )
    SELECT task_id, status FROM crawl_tasks WHERE resting IS NULL AND task_id NOT IN (SELECT task_id FROM held)
"""
AHEAD_OF_THEIR_PARENTS = """
    SELECT count(*) FROM permits JOIN crawl_tasks USING (task_id) WHERE awaits_parent
"""
FACTS = ("page", "page", "parsed", "parsed", "failed", "gone", "blocked", "garbage", "late", "moved", "unparsed")


def fact_of(kind: str, permit: Permit) -> Message:
    key: dict[str, Any] = {
        "task_id": permit.task_id,
        "attempt": permit.attempt,
        "started_time": to_stamp(datetime.now(UTC)),
    }
    robots = permit.kind == "robots"
    order = OrderKind.ORDER_KIND_ROBOTS if robots else OrderKind.ORDER_KIND_PAGE
    page = PageFetched(**key, url=permit.url, body_key="robots" if robots else "aa/bb", http_status=200, kind=order)
    match kind:
        case "page":
            return page
        case "parsed":
            return PageParsed(page=page)
        case "unparsed":
            return ParseFailed(page=page, error="ValueError", retryable=True)
        case "failed":
            return FetchFailed(**key, kind=FailureKind.FAILURE_KIND_NETWORK, error="reset")
        case "gone":
            return FetchFailed(**key, kind=FailureKind.FAILURE_KIND_CLIENT_ERROR, error="status 404", http_status=404)
        case "blocked":
            return PageRejected(**key, kind=RejectKind.REJECT_KIND_BLOCKED, reason="status 403", http_status=403)
        case "garbage":
            return PageRejected(**key, kind=RejectKind.REJECT_KIND_GARBAGE, reason="too small", http_status=200)
        case "moved":
            moved = ReturnReason.RETURN_REASON_REDIRECTED
            return FetchReturned(**key, reason=moved, location=f"http://{HOST}/moved")
    return FetchReturned(**key, reason=ReturnReason.RETURN_REASON_LATE)


class Lifecycle(Machine):
    @initialize(robots=st.booleans(), recurring=st.booleans())
    def start(self, *, robots: bool, recurring: bool) -> None:
        self.recurring = recurring
        self.permits: list[Permit] = []
        self.run(self.pool.execute(f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE"))
        domain = {
            "name": HOST, "crawl_delay_seconds": 0, "max_concurrent_requests": LIMIT, "max_per_group": PER_GROUP,
            "obey_robots": robots, "breaker_failures": 4, "breaker_successes": 1,
        }  # fmt: skip
        assert self.ask("POST", "/api/admin/domains", domain).status_code == 201
        assert self.ask("POST", "/api/admin/batches", {"name": "all"}).status_code == 201

    @rule(
        numbers=st.lists(st.integers(0, 11), min_size=1, max_size=6),
        group=st.sampled_from([None, None, "north", "south"]),
        priority=st.integers(1, 10),
        later=st.booleans(),
        batch=st.booleans(),
    )
    def submit(self, *, numbers: list[int], group: str | None, priority: int, later: bool, batch: bool) -> None:
        moment = (datetime.now(UTC) + timedelta(hours=1)).isoformat() if later else None
        tasks = [
            {
                "url": f"http://{HOST}/p/{number}", "group_key": group, "priority": priority, "scheduled_at": moment,
                "is_recurring": self.recurring, "max_retries": 1,
            }
            for number in numbers
        ]  # fmt: skip
        body = {"tasks": tasks, "batch": "all" if batch else None}
        assert self.ask("POST", "/api/admin/tasks/bulk", body).status_code == 200

    @rule(number=CHILDREN, parent=st.integers(0, 100), release=st.booleans(), batch=st.booleans())
    def submit_child(self, *, number: int, parent: int, release: bool, batch: bool) -> None:
        known = self.run(self.pool.fetchval("SELECT count(*) FROM crawl_tasks"))
        body = {
            "url": f"http://{HOST}/p/{number}", "parent_task_id": 1 + parent % max(known, 1), "is_recurring": self.recurring, "max_retries": 1,
            "on_parent_failure": "release" if release else "cancel", "batch": "all" if batch else None,
        }  # fmt: skip
        answer = self.ask("POST", "/api/admin/tasks", body)
        assert answer.status_code in (200, 201, 422), answer.text

    @rule(window=st.sampled_from([1, 3, 100]))
    def dispatch(self, *, window: int) -> None:
        before = {(permit.task_id, permit.attempt) for permit in self.permits}
        granted = self.run(grant(self.pool, window=window))
        assert not before & {(permit.task_id, permit.attempt) for permit in granted}, "an attempt is granted once"
        self.permits += granted
        groups = self.run(
            self.pool.fetch("SELECT count(*) FROM permits WHERE group_key IS NOT NULL GROUP BY domain_id, group_key")
        )
        assert all(row["count"] <= PER_GROUP for row in groups)
        assert self.run(self.pool.fetchval("SELECT count(*) FROM permits")) <= LIMIT

    @precondition(lambda self: self.permits)
    @rule(draws=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(FACTS)), min_size=1, max_size=6))
    def facts(self, *, draws: list[tuple[int, str]]) -> None:
        """Of any attempt there ever was: late, repeated, and in any order. Recent ones are likelier."""
        chosen = [(self.permits[-1 - min(at % 16, at % len(self.permits))], kind) for at, kind in draws]
        told = [fact_of(kind, permit) for permit, kind in chosen]
        self.run(make_settle(self.pool, bodies={"robots": b"User-agent: *\nDisallow: /p/3"}).settle(told))

    @rule()
    def leases_expire(self) -> None:
        self.run(self.pool.execute("UPDATE permits SET lease_until = now() - interval '1 s' WHERE task_id % 2 = 0"))
        self.run(self.pool.execute("UPDATE parse_leases SET lease_until = now() - interval '1 s'"))
        reclaim = make_reclaim(self.pool, self.bus)
        self.run(reclaim.expire_permits())
        self.run(reclaim.ask_parses())

    @rule()
    def time_passes(self) -> None:
        self.run(come_due(self.pool, recrawls=True))
        self.run(self.pool.execute("UPDATE domains SET breaker_opened_at = breaker_opened_at - interval '1 h'"))
        self.run(self.pool.execute("UPDATE domains SET held_until = '-infinity', ready_at = least(ready_at, now())"))

    @rule(number=NUMBERS, action=st.sampled_from(ACTIONS))
    def act(self, *, number: int, action: str) -> None:
        answer = self.ask("POST", f"/api/admin/tasks/{number + 1}/{action}", {})
        assert answer.status_code in (200, 404, 409), answer.text

    @rule(number=NUMBERS, priority=st.integers(1, 10))
    def change_priority(self, *, number: int, priority: int) -> None:
        answer = self.ask("PATCH", f"/api/admin/tasks/{number + 1}/priority", {"priority": priority})
        assert answer.status_code in (200, 404, 409), answer.text

    @rule(action=st.sampled_from(["pause", "resume", "cancel", "restart"]))
    def act_on_the_batch(self, *, action: str) -> None:
        assert self.ask("POST", f"/api/admin/batches/all/{action}", {}).status_code == 200

    @rule(active=st.booleans())
    def switch(self, *, active: bool) -> None:
        self.ask("POST", f"/api/admin/domains/{HOST}/{'activate' if active else 'deactivate'}")

    @invariant()
    def everything_adds_up(self) -> None:
        if hasattr(self, "permits"):
            self.run(check_all_is_right(self.pool))
            assert self.run(self.pool.fetchval(AHEAD_OF_THEIR_PARENTS)) == 0
            for event, source, target in self.run(self.pool.fetch("SELECT DISTINCT event, source, target FROM audit")):
                assert event == "submitted" or allowed(event, Status(source), Status(target)), (event, source, target)

    def teardown(self) -> None:
        """Left to themselves, with fetchers and parsers that work, all tasks that nobody paused come to their end."""
        if not hasattr(self, "permits"):
            return
        self.ask("POST", f"/api/admin/domains/{HOST}/activate")
        self.run(self.pool.execute("UPDATE crawl_tasks SET is_recurring = false"))
        for _ in range(60):
            self.leases_expire()
            self.run(self.pool.execute("UPDATE permits SET lease_until = now() - interval '1 s'"))
            self.run(make_reclaim(self.pool, self.bus).expire_permits())
            self.time_passes()
            granted = self.run(grant(self.pool))
            settle = make_settle(self.pool, bodies={"robots": b""})
            self.run(settle.settle([fact_of("page", permit) for permit in granted]))
            waiting = self.run(
                self.pool.fetch(
                    "SELECT task_id, attempt, url FROM crawl_tasks WHERE status IN ('queued_parse', 'parsing')"
                )
            )
            pages = [PageFetched(task_id=row["task_id"], attempt=row["attempt"], url=row["url"]) for row in waiting]
            self.run(settle.settle([PageParsed(page=page) for page in pages]))
            open_tasks = self.run(self.pool.fetch(STUCK))
            if not open_tasks:
                break
        self.run(check_all_is_right(self.pool))
        assert open_tasks == [], f"stuck for ever: {open_tasks}"


def test_s3_no_order_of_calls_and_events_breaks_the_lifecycle(postgres: Postgres, nats_url: str) -> None:
    run_machine(Lifecycle, postgres, nats_url, examples=EXAMPLES, steps=STEPS)
