"""Every gate made real on a database: explain names it, and what it says will wake the task does wake it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any

from limpet.contracts.events.v1.beat_pb2 import Beat
from limpet.contracts.events.v1.fetch_pb2 import FailureKind, FetchFailed, FetchReturned, OrderKind, ReturnReason
from limpet.contracts.events.v1.page_pb2 import PageFetched, PageRejected, RejectKind
from limpet.contracts.events.v1.parse_pb2 import PageParsed, ParseFailed
from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.scheduler.api.explain import explanation_view
from limpet.scheduler.capacity import Capacity
from limpet.scheduler.explain import Explain
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.reclaim import Reclaim
from limpet.scheduler.ripen import Ripen
from limpet.scheduler.store.permits import Permit
from limpet.scheduler.store.tasks import change_tasks, lock_tasks, mark_crawling, mark_parsing
from limpet.scheduler.submit import submit
from tests.support.scheduler_api import as_role, problem, scheduler_api
from tests.support.scheduling import come_due, grant, make_domain, make_settle, page, status_of, submit_pages

LEASE = timedelta(seconds=60)


async def ask(pool: Pool, task_id: int, *, capacity: Capacity | None = None) -> dict[str, Any]:
    found = await Explain(pool, capacity=capacity).task(task_id)
    assert found is not None
    return explanation_view(*found)


async def task_of(pool: Pool, number: int = 0) -> int:
    return int(await pool.fetchval("SELECT task_id FROM crawl_tasks WHERE url = $1", f"http://shop.test/p/{number}"))


async def left_over(pool: Pool) -> list[int]:
    """Those in the queue, in their order."""
    rows = await pool.fetch("SELECT task_id FROM due_tasks ORDER BY priority, due_at, task_id")
    return [row["task_id"] for row in rows]


async def granted(pool: Pool, **options: Any) -> set[int]:
    return {permit.task_id for permit in await grant(pool, **options)}


async def ready_at(pool: Pool) -> datetime | None:
    """When the scheduler itself looks at the domain again."""
    moment: datetime | None = await pool.fetchval("SELECT nullif(ready_at, 'infinity') FROM domains")
    return moment


def failed(
    permit: Permit, kind: FailureKind.ValueType = FailureKind.FAILURE_KIND_NETWORK, error: str = "reset"
) -> FetchFailed:
    return FetchFailed(task_id=permit.task_id, attempt=permit.attempt, kind=kind, error=error)


def blocked(permit: Permit, *, retry_after: int = 0) -> PageRejected:
    return PageRejected(
        task_id=permit.task_id, attempt=permit.attempt, kind=RejectKind.REJECT_KIND_BLOCKED, reason="status 403",
        http_status=403, retry_after_seconds=retry_after,
    )  # fmt: skip


async def ripen(pool: Pool) -> None:
    await Ripen(pool, every=1, freed=lambda: None, parse_lease=LEASE).round()


def reclaim(pool: Pool) -> Reclaim:
    return Reclaim(pool, bus=None, parse_lease=LEASE, every=1, freed=lambda: None)  # type: ignore[arg-type]


async def test_s24_a_task_of_the_future_waits_for_its_time(pool: Pool) -> None:
    await make_domain(pool)
    then = datetime.now(UTC) + timedelta(hours=1)
    await submit_pages(pool, 1, scheduled_at=then)
    task_id = await task_of(pool)
    said = await ask(pool, task_id)
    assert (said["gate"], said["wakes"], said["wakes_at"], said["status"]) == ("scheduled", "clock", then, "pending")
    assert said["since"] == await pool.fetchval("SELECT at FROM audit")
    assert await granted(pool) == set()
    await come_due(pool)
    assert (await ask(pool, task_id))["gate"] == "next"
    assert await granted(pool) == {task_id}


async def test_s24_a_retry_says_which_of_how_many_after_what_and_when(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([failed(permit)])
    said = await ask(pool, permit.task_id)
    assert (said["gate"], said["wakes"]) == ("retry", "clock")
    assert said["sentence"].startswith("retry 1 of 3 is at ")
    assert said["sentence"].endswith(": reset")
    assert said["wakes_at"] == await pool.fetchval("SELECT wake_at FROM waiting_tasks")
    assert said["details"]["retries"] == {"count": 1, "most": 3}
    assert said["details"]["last_change"]["event"] == "fetch_failed"
    await come_due(pool)
    assert await granted(pool) == {permit.task_id}


async def test_s24_a_blocked_task_cools_down_and_its_domain_is_left_alone_as_the_site_asked(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 2)
    (permit,) = await grant(pool, window=1)
    await make_settle(pool).settle([blocked(permit, retry_after=90)])
    said = await ask(pool, permit.task_id)
    assert said["gate"] == "cooling_down"
    assert "block 1 of 10" in said["sentence"]
    assert "as the site asked" in said["sentence"]
    (other,) = await left_over(pool)
    said = await ask(pool, other)
    assert (said["gate"], said["wakes"]) == ("retry_after", "clock")
    assert said["wakes_at"] == await pool.fetchval("SELECT held_until FROM domains")
    assert await granted(pool) == set()
    assert await ready_at(pool) == said["wakes_at"]
    await pool.execute("UPDATE domains SET held_until = now(), ready_at = now()")
    assert await granted(pool) == {other}


async def test_s24_a_missing_proxy_holds_the_domain_for_a_while(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    returned = FetchReturned(
        task_id=permit.task_id, attempt=permit.attempt, reason=ReturnReason.RETURN_REASON_NO_PROXY, hold_seconds=30
    )
    await make_settle(pool).settle([returned])
    assert await granted(pool) == set()
    said = await ask(pool, permit.task_id)
    assert (said["gate"], said["wakes_at"]) == ("no_proxy", await ready_at(pool))
    await pool.execute("UPDATE domains SET held_until = now(), ready_at = now()")
    assert await granted(pool) == {permit.task_id}


async def test_s24_a_missed_crawl_is_made_up_for_and_a_completed_one_says_when_the_next_is(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1, crawl_frequency=timedelta(days=2))
    (permit,) = await grant(pool)
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    said = await ask(pool, permit.task_id)
    assert (said["gate"], said["wakes"]) == ("completed", "clock")
    # The audit is told the time of day, the calendar that of the transaction's start.
    assert timedelta() <= timedelta(days=2) - (said["wakes_at"] - said["since"]) < timedelta(seconds=1)
    await pool.execute("UPDATE crawl_tasks SET next_crawl_at = now() - interval '1 hour'")
    await pool.execute("UPDATE waiting_tasks SET wake_at = (SELECT next_crawl_at FROM crawl_tasks)")
    await ripen(pool)
    said = await ask(pool, permit.task_id)
    assert (said["gate"], said["status"]) == ("recurring", "pending")
    await come_due(pool)
    assert await granted(pool) == {permit.task_id}


async def test_s24_a_domain_that_is_switched_off_waits_for_a_person(pool: Pool) -> None:
    await make_domain(pool, is_active=False)
    await submit_pages(pool, 1)
    said = await ask(pool, await task_of(pool))
    assert (said["gate"], said["wakes"], said["wakes_at"]) == ("inactive", "person", None)
    assert await granted(pool) == set()
    await pool.execute("UPDATE domains SET is_active = true")
    assert await granted(pool) == {await task_of(pool)}


async def test_s24_a_maintenance_window_says_when_it_ends(pool: Pool) -> None:
    now = datetime.now(UTC)
    around = [(now + timedelta(hours=hours)).time().replace(second=0, microsecond=0) for hours in (-2, 2)]
    await make_domain(pool, maintenance_start=around[0], maintenance_end=around[1])
    await submit_pages(pool, 1)
    said = await ask(pool, await task_of(pool))
    assert (said["gate"], said["wakes"]) == ("maintenance_window", "clock")
    assert said["wakes_at"].time() == around[1]
    assert timedelta(hours=1.9) < said["wakes_at"] - now <= timedelta(hours=2)
    assert await granted(pool) == set()
    assert await ready_at(pool) == said["wakes_at"]
    ended = [(now + timedelta(hours=hours)).time() for hours in (-4, -1)]
    await pool.execute("UPDATE domains SET maintenance_start = $1, maintenance_end = $2, ready_at = now()", *ended)
    assert await granted(pool) == {await task_of(pool)}


async def open_breaker(pool: Pool) -> list[int]:
    """Five blocks in a row; the tasks that are left."""
    await make_domain(pool, breaker_failures=5, breaker_successes=1)
    await submit_pages(pool, 7)
    await make_settle(pool).settle([blocked(permit) for permit in await grant(pool, window=5)])
    return await left_over(pool)


async def test_s24_an_open_breaker_says_why_and_until_when_and_a_probe_under_way_keeps_the_rest(pool: Pool) -> None:
    first, second = await open_breaker(pool)
    said = await ask(pool, second)
    assert (said["gate"], said["wakes"], said["details"]["breaker"]["state"]) == ("breaker_open", "clock", "open")
    assert "status 403" in said["sentence"]
    assert await granted(pool) == set()
    assert await ready_at(pool) == said["wakes_at"]
    await pool.execute("UPDATE domains SET breaker_opened_at = breaker_opened_at - interval '61 s', ready_at = now()")
    assert (await ask(pool, second))["gate"] == "behind_others"
    (probe,) = await grant(pool)
    assert probe.task_id == first
    assert await granted(pool) == set()
    said = await ask(pool, second)
    assert (said["gate"], said["wakes"]) == ("breaker_half_open", "permit_back")
    await make_settle(pool).settle([page(probe)])
    assert await granted(pool) == {second}


async def asked_for_robots(pool: Pool, pages: int = 2) -> Permit:
    await make_domain(pool, obey_robots=True)
    await submit_pages(pool, pages)
    assert (await ask(pool, await task_of(pool)))["gate"] == "robots_unread", "before anybody asked for it"
    assert await granted(pool) == set()
    (order,) = await grant(pool)
    assert order.kind == "robots"
    return order


async def read_robots(pool: Pool, order: Permit, text: str) -> None:
    read = PageFetched(
        task_id=order.task_id, attempt=order.attempt, body_key="r", http_status=200, kind=OrderKind.ORDER_KIND_ROBOTS
    )
    await make_settle(pool, bodies={"r": text.encode()}).settle([read])


async def test_s24_pages_wait_for_a_robots_txt_that_is_unread_or_unreachable(pool: Pool) -> None:
    order = await asked_for_robots(pool)
    task_id = await task_of(pool)
    said = await ask(pool, task_id)
    assert (said["gate"], said["wakes"]) == ("robots_unread", "robots_read")
    assert "http://shop.test/robots.txt" in said["sentence"]
    await make_settle(pool).settle([failed(order, FailureKind.FAILURE_KIND_SERVER_ERROR, "status 500")])
    said = await ask(pool, task_id)
    assert (said["gate"], said["wakes"]) == ("robots_unreachable", "robots_read")
    assert said["wakes_at"] == await pool.fetchval("SELECT scheduled_at FROM crawl_tasks WHERE kind = 'robots'")
    own = await ask(pool, order.task_id)
    assert (own["gate"], own["wakes_at"]) == ("retry", said["wakes_at"])
    await come_due(pool)
    (order,) = await grant(pool)
    await read_robots(pool, order, "")
    assert task_id in await granted(pool)


async def test_s24_what_robots_txt_forbids_says_so_before_and_after_its_turn(pool: Pool) -> None:
    order = await asked_for_robots(pool)
    await read_robots(pool, order, "User-agent: *\nDisallow: /p/1")
    task_id = await task_of(pool, 1)
    assert (await ask(pool, task_id))["gate"] == "robots_forbids"
    assert task_id not in await granted(pool)
    said = await ask(pool, task_id)
    assert (said["gate"], said["status"], said["wakes"]) == ("robots_disallowed", "cancelled", "person")
    assert said["sentence"].startswith("http://shop.test/robots.txt, read at ")
    await pool.execute("UPDATE robots SET content = ''")
    assert "restart it" in (await ask(pool, task_id))["next"]


async def test_s24_a_full_group_says_how_many_are_in_flight(pool: Pool) -> None:
    await make_domain(pool, max_per_group=2)
    await submit_pages(pool, 3, group_key="north")
    permits = await grant(pool)
    (left,) = await left_over(pool)
    said = await ask(pool, left)
    assert (said["gate"], said["wakes"]) == ("group_full", "permit_back")
    assert "2 of 2" in said["sentence"]
    assert await granted(pool) == set()
    await make_settle(pool).settle([page(permits[0])])
    assert await granted(pool) == {left}


async def test_s24_a_full_domain_says_how_many_are_in_flight_and_that_blocks_lowered_it(pool: Pool) -> None:
    await make_domain(pool, max_concurrent_requests=2)
    await submit_pages(pool, 4)
    permits = await grant(pool)
    first, _ = await left_over(pool)
    said = await ask(pool, first)
    assert (said["gate"], said["wakes"]) == ("domain_full", "permit_back")
    assert "2 of 2 requests in flight" in said["sentence"]
    await make_settle(pool).settle([blocked(permits[0])])
    said = await ask(pool, first)
    assert said["gate"] == "domain_full"
    assert "1 of 1 requests in flight (lowered from 2" in said["sentence"]
    assert await granted(pool) == set()
    await make_settle(pool).settle([page(permits[1])])
    assert first in await granted(pool)


async def test_s24_a_full_platform_and_one_without_fetchers_say_so(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 2)
    nobody = Capacity(floor=1)
    (permit,) = await grant(pool, window=1)
    (left,) = await left_over(pool)
    assert (await ask(pool, permit.task_id, capacity=nobody))["gate"] == "no_fetcher"
    assert (await ask(pool, left, capacity=nobody))["gate"] == "no_fetcher"
    heard = Capacity(floor=1)
    await heard.on_beat(b"")
    said = await ask(pool, left, capacity=heard)
    assert (said["gate"], said["wakes"], said["details"]["fetchers"]) == ("platform_full", "permit_back", 1)
    assert await granted(pool, window=1) == set()
    await make_settle(pool).settle([page(permit)])
    assert (await ask(pool, left, capacity=heard))["gate"] == "next"
    paused = Capacity(floor=1)
    await paused.on_beat(Beat(worker_id="a", paused="no network").SerializeToString())
    said = await ask(pool, left, capacity=paused)
    assert said["gate"] == "platform_full"
    assert "all 1 fetchers are paused" in said["sentence"]
    assert await granted(pool, window=1) == {left}


async def test_s24_the_estimate_of_those_who_stand_in_line_is_the_slot_that_they_get(pool: Pool) -> None:
    await make_domain(pool, crawl_delay_seconds=10, max_per_group=1)
    await submit(pool, [{"url": f"http://shop.test/full/{n}", "group_key": "full"} for n in range(3)], batch=None)
    assert len(await grant(pool)) == 1
    await submit(pool, [{"url": "http://shop.test/p/9", "group_key": "open"}], batch=None)
    await submit_pages(pool, 4, priority=6)
    rows = await pool.fetch(
        "SELECT task_id FROM due_tasks WHERE group_key <> 'full' ORDER BY priority, due_at, task_id"
    )
    said = [await ask(pool, row["task_id"]) for row in rows]
    assert [one["gate"] for one in said] == ["next_slot", *["behind_others"] * 4]
    assert [one["details"]["queue"]["ahead"] for one in said] == [0, 1, 2, 3, 4], "a full group is not in the way"
    slots = {permit.task_id: permit.slot_at for permit in await grant(pool, lead=100)}
    for one in said:
        assert abs(slots[one["task_id"]] - one["wakes_at"]) < timedelta(milliseconds=1)


async def test_s24_more_than_ten_thousand_before_it_are_not_counted(pool: Pool) -> None:
    await make_domain(pool, crawl_delay_seconds=1)
    await submit_pages(pool, 10_002)
    newest = (await left_over(pool))[-1]
    said = await ask(pool, newest)
    assert (said["gate"], said["wakes_at"]) == ("behind_others", None)
    assert said["details"]["queue"] == {"ahead": 10_000, "more": True, "estimated_at": None}
    assert "over 10,000" in said["sentence"]


async def test_s24_an_order_that_is_out_says_its_slot_and_its_lease_and_comes_back_when_that_ends(pool: Pool) -> None:
    await make_domain(pool, crawl_delay_seconds=1)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    said = await ask(pool, permit.task_id)
    assert (said["gate"], said["wakes"]) == ("ordered", "permit_back")
    assert said["details"]["permit"]["slot_at"] == permit.slot_at
    assert abs(said["details"]["permit"]["start_by"] - permit.start_by) < timedelta(milliseconds=1)
    assert said["wakes_at"] == await pool.fetchval("SELECT lease_until FROM permits")
    async with pool.acquire() as conn:
        await mark_crawling(conn, [(permit.task_id, permit.attempt)])
    assert (await ask(pool, permit.task_id))["gate"] == "fetching"
    await pool.execute("UPDATE permits SET lease_until = now() - interval '1 s'")
    assert (await ask(pool, permit.task_id))["gate"] == "permit_expired"
    assert await reclaim(pool).expire_permits() == 1
    assert await status_of(pool, permit.task_id) == "pending"
    assert (await ask(pool, permit.task_id))["gate"] in ("next", "next_slot")


async def test_s24_a_page_that_waits_for_its_parser_says_until_when(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    settle = make_settle(pool)
    await settle.settle([page(permit)])
    said = await ask(pool, permit.task_id)
    assert (said["gate"], said["wakes"]) == ("parse_ordered", "parser")
    assert said["wakes_at"] == await pool.fetchval("SELECT lease_until FROM parse_leases")
    async with pool.acquire() as conn:
        await mark_parsing(conn, [(permit.task_id, permit.attempt)])
    assert (await ask(pool, permit.task_id))["gate"] == "parsing"
    await settle.settle([ParseFailed(page=page(permit), error="no title", retryable=True)])
    said = await ask(pool, permit.task_id)
    assert (said["gate"], said["status"]) == ("parse_next", "downloaded")
    assert "parse error 1 of 3: no title" in said["sentence"]
    await pool.execute("UPDATE crawl_tasks SET status = 'parsing'")
    await pool.execute("UPDATE parse_leases SET lease_until = now() - interval '1 s'")
    assert (await ask(pool, permit.task_id))["gate"] == "parse_expired"
    await settle.settle([PageParsed(page=page(permit))])
    assert (await ask(pool, permit.task_id))["gate"] == "completed"


async def change(pool: Pool, task_id: int, event: str, target: Status, *, actor: str) -> None:
    async with pool.acquire() as conn, conn.transaction():
        task = (await lock_tasks(conn, [task_id]))[task_id]
        before = task.status
        task.become(event, target)
        task.paused_from = before.value if target is Status.PAUSED else None
        await change_tasks(conn, [(before, task)], parse_lease=LEASE, actor=actor)


async def test_s24_what_a_person_stopped_says_who_and_when(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    task_id = await task_of(pool)
    await change(pool, task_id, "paused", Status.PAUSED, actor="ann")
    said = await ask(pool, task_id)
    assert (said["gate"], said["wakes"]) == ("paused", "person")
    assert said["sentence"].startswith("it was paused by ann at ")
    assert said["sentence"].endswith("when it was pending")
    assert said["since"] == await pool.fetchval("SELECT at FROM audit WHERE target = 'paused'")
    assert await granted(pool) == set()
    await change(pool, task_id, "cancelled", Status.CANCELLED, actor="bob")
    said = await ask(pool, task_id)
    assert (said["gate"], said["wakes"]) == ("cancelled", "person")
    assert "by bob" in said["sentence"]


async def test_s24_a_failed_task_says_what_of(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1, is_recurring=False)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([failed(permit, FailureKind.FAILURE_KIND_CLIENT_ERROR, "status 404")])
    said = await ask(pool, permit.task_id)
    assert (said["gate"], said["wakes"]) == ("failed", "person")
    assert said["sentence"].endswith(": status 404")


async def family(pool: Pool, children: Sequence[str]) -> Permit:
    """A parent that is out, and children that wait for it, by what they do when it fails."""
    await make_domain(pool)
    await submit_pages(pool, 1)
    (parent,) = await grant(pool)
    for number, choice in enumerate(children, start=1):
        wish = {"url": f"http://shop.test/p/{number}", "parent_task_id": parent.task_id, "awaits_parent": True}
        await submit(pool, [{**wish, "on_parent_failure": choice}], batch=None)
    await pool.execute("UPDATE crawl_tasks SET has_children = true WHERE task_id = $1", parent.task_id)
    return parent


async def test_s24_a_child_waits_for_its_parent_and_is_due_when_that_completes(pool: Pool) -> None:
    parent = await family(pool, ["cancel"])
    child = await task_of(pool, 1)
    said = await ask(pool, child)
    assert (said["gate"], said["wakes"]) == ("parent", "parent_ends")
    assert said["details"]["parent"] == {"task_id": parent.task_id, "url": parent.url, "status": "queued"}
    assert await granted(pool) == set()
    await make_settle(pool).settle([PageParsed(page=page(parent))])
    await ripen(pool)
    assert await granted(pool) == {child}


async def test_s24_a_child_of_a_failed_parent_says_that_it_went_with_it(pool: Pool) -> None:
    parent = await family(pool, ["cancel", "release"])
    assert "it becomes due all the same" in (await ask(pool, await task_of(pool, 2)))["next"]
    await make_settle(pool).settle([failed(parent, FailureKind.FAILURE_KIND_CLIENT_ERROR, "status 404")])
    await ripen(pool)
    said = await ask(pool, await task_of(pool, 1))
    assert (said["gate"], said["status"]) == ("parent_failed", "cancelled")
    assert f"task {parent.task_id}" in said["sentence"]
    assert await granted(pool) == {await task_of(pool, 2)}


async def test_s24_asking_waits_for_no_lock_and_takes_none(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute("SELECT FROM crawl_tasks FOR UPDATE")
        await conn.execute("SELECT FROM domains FOR UPDATE")
        async with asyncio.timeout(5):
            assert (await ask(pool, await task_of(pool)))["gate"] == "next"


async def test_s24_over_rest_by_id_and_by_any_spelling_of_the_url(pool: Pool, bus: Bus) -> None:
    await make_domain(pool, maintenance_start=time(3), maintenance_end=time(3, 0, 1))
    await submit_pages(pool, 1)
    task_id = await task_of(pool)
    async with scheduler_api(pool, bus) as api:
        by_id = await api.get(f"/api/admin/tasks/{task_id}/explain", headers=as_role("read"))
        by_url = await api.get("/api/admin/explain", params={"url": "HTTP://SHOP.test:80/x/../p/0#top"})
        assert (by_id.status_code, by_url.status_code) == (200, 200), by_id.text + by_url.text
        names = {"task_id", "url", "status", "gate", "sentence", "since", "wakes", "wakes_at", "details", "next"}
        assert set(by_id.json()) == names
        assert {**by_url.json(), "details": 0, "wakes_at": 0} == {**by_id.json(), "details": 0, "wakes_at": 0}
        assert by_id.json()["details"]["window"] == {"start": "03:00:00", "end": "03:00:01", "zone": "UTC"}
        for wrong in (task_id + 1, 0, 1 << 63):
            problem(await api.get(f"/api/admin/tasks/{wrong}/explain"), 404)
        problem(await api.get("/api/admin/explain", params={"url": "ftp://shop.test/"}), 422)
        problem(await api.get("/api/admin/explain"), 422)
        problem(await api.get("/api/admin/explain", params={"url": "http://a/"}, headers={"Authorization": ""}), 401)


async def test_s24_a_url_that_is_no_task_says_what_would_become_of_it(pool: Pool, bus: Bus) -> None:
    order = await asked_for_robots(pool)

    async def would(url: str) -> dict[str, str]:
        body = problem(await api.get("/api/admin/explain", params={"url": url}), 404)
        assert url in body["detail"]
        return {error["field"]: error["message"] for error in body["errors"]}

    async with scheduler_api(pool, bus) as api:
        assert await would("http://strange.test/") == {"url": "not known", "domain": "not known"}
        new = {"url": "not known", "domain": "known"}
        assert await would("http://shop.test/new") == {**new, "robots": "unread"}
        await read_robots(pool, order, "User-agent: *\nDisallow: /secret")
        assert await would("http://shop.test/new") == {**new, "robots": "allowed"}
        assert await would("http://shop.test/secret") == {**new, "robots": "forbidden"}
