"""Runs: everything is found before anything is published, and nothing is published twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from prometheus_client import REGISTRY

from limpet.contracts.events.v1.fetch_pb2 import OrderKind
from limpet.contracts.events.v1.parse_pb2 import LinksDiscovered
from limpet.contracts.events.v1.run_pb2 import RunEnded, RunResult
from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.scheduler.discover import Discover
from limpet.scheduler.retention import Retention
from limpet.scheduler.retry import MAX_LOSSES
from limpet.scheduler.runs.commit import finish_run
from limpet.scheduler.runs.listing import FAILURES_KEPT
from tests.support.runs import (
    HOST,
    answer_all,
    begin_run,
    blocked,
    fetched,
    granted,
    insert_collected,
    links,
    make_tend,
    missing,
    new_id,
    pages_of,
    published,
    read,
    start_url,
    unreachable,
)
from tests.support.scheduler_api import fields
from tests.support.scheduling import come_due, grant, make_domain, make_reclaim, make_settle
from tests.support.task_states import check_all_is_right
from tests.support.waiting import until

SECOND = f"http://{HOST}/list/1/more"


@pytest.fixture(autouse=True)
async def shop(pool: Pool) -> None:
    await make_domain(pool)


async def test_s19_a_run_collects_as_pages_come_and_publishes_all_when_the_last_has(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    run = await begin_run(api)
    assert run["state"] == "collecting"
    assert run["start_pages"] == {"pending": 2, "paginating": 0, "completed": 0, "failed": 0}
    permits = await granted(pool)
    assert {permit.kind for permit in permits.values()} == {"list"}
    assert all(permit.follow for permit in permits.values()), "links are wanted of list pages"
    await make_settle(pool).settle([read(permits[start_url(1)], ["a", "b"], after=SECOND)])
    first, second = await pages_of(pool, run["run_id"])
    assert (first["state"], first["collected"], first["pages"], first["open_pages"]) == ("paginating", 2, 2, 1)
    assert (second["state"], second["collected"]) == ("pending", 0)
    await make_settle(pool).settle([read(permits[start_url(2)], ["b", "c"])])
    assert await make_tend(pool, bus).round() == 0, "one start page still paginates"
    assert await published(pool) == []
    await answer_all(pool, {SECOND: (["b", "d"], None)})
    assert [page["state"] for page in await pages_of(pool, run["run_id"])] == ["completed", "completed"]
    await make_tend(pool, bus).round()
    assert await published(pool) == ["a", "b", "c", "d"]
    told = (await api.get(f"/api/admin/runs/{run['run_id']}")).json()
    assert (told["state"], told["urls"], told["new_tasks"], told["collected"]) == ("committed", 4, 4, 5)
    assert await pool.fetchval("SELECT count(*) FROM run_urls") == 0, "what was collected goes after the commit"
    batch = (await api.get(f"/api/admin/batches/{told['batch']}")).json()
    assert (batch["pages"], batch["open_tasks"]) == (4, 4)
    assert len(await granted(pool)) == 4, "the domain was woken"
    await check_all_is_right(pool)


async def test_s19_list_pages_are_in_nobodys_lists(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    run = await begin_run(api, starts=1)
    assert (await api.get("/api/admin/tasks")).json()["items"] == []
    (listed,) = (await api.get("/api/admin/tasks?kind=list")).json()["items"]
    assert (listed["kind"], listed["is_recurring"], listed["url"]) == ("list", False, start_url(1))
    why = (await api.get(f"/api/admin/tasks/{listed['task_id']}/explain")).json()
    assert why["details"]["run"] == {"run_id": run["run_id"], "start_no": 1, "state": "collecting"}
    assert fields(await api.post(f"/api/admin/tasks/{listed['task_id']}/pause"), 409) == ["status"]
    # The page of the same address is a task of its own.
    answer = await api.post("/api/admin/tasks", json={"url": start_url(1)})
    assert answer.status_code == 201
    assert fields(await api.delete(f"/api/admin/domains/{HOST}"), 409)


async def test_s19_one_live_run_for_each_site(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    run = await begin_run(api)
    body = {"site": HOST, "start_pages": [start_url(7)], "run_id": new_id()}
    again = await asyncio.gather(*(api.post("/api/admin/runs", json=body) for _ in range(4)))
    assert {answer.status_code for answer in again} == {200}
    assert {answer.json()["run_id"] for answer in again} == {run["run_id"]}
    assert (await api.post(f"/api/admin/runs/{run['run_id']}/abort")).status_code == 200
    assert (await api.post("/api/admin/runs", json=body)).status_code == 201


async def test_s20_the_same_run_posted_twice_is_one_run_and_creates_nothing_twice(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    run_id = new_id()
    run = await begin_run(api, starts=1, run_id=run_id)
    assert run["run_id"] == run_id
    await answer_all(pool, {start_url(1): (["a", "b"], None)})
    await make_tend(pool, bus).round()
    body = {"site": HOST, "start_pages": [start_url(1)], "run_id": run_id}
    again = await api.post("/api/admin/runs", json=body)
    assert (again.status_code, again.json()["state"], again.json()["new_tasks"]) == (200, "committed", 2)
    async with pool.acquire() as conn, conn.transaction():
        assert await finish_run(conn, UUID(run_id)) is None, "it has been committed"
    await make_tend(pool, bus).round()
    assert await published(pool) == ["a", "b"]
    assert await pool.fetchval("SELECT count(*) FROM runs") == 1
    await make_domain(pool, "other.test")
    other = {"site": "other.test", "start_pages": ["http://other.test/"], "run_id": run_id}
    assert fields(await api.post("/api/admin/runs", json=other), 409) == ["run_id"]


async def test_s20_two_schedulers_commit_a_run_once(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    await begin_run(api, starts=1)
    await answer_all(pool, {start_url(1): ([str(n) for n in range(100)], None)})
    rounds = await asyncio.gather(*(make_tend(pool, bus).round() for _ in range(4)))
    assert sum(rounds) > 0
    assert len(await published(pool)) == 100
    assert await pool.fetchval("SELECT count(*) FROM audit WHERE event = 'submitted' AND actor LIKE 'run:%'") == 100
    await check_all_is_right(pool)


async def test_s20_a_commit_that_is_killed_in_the_middle_publishes_nothing_until_it_is_done_again(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    run = await begin_run(api, starts=1)
    await insert_collected(pool, UUID(run["run_id"]), start_no=1, count=30_000)
    await answer_all(pool, {start_url(1): (["a"], None)})
    commit = asyncio.create_task(make_tend(pool, bus).round())

    async def killed() -> bool:
        kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%INSERT INTO crawl_tasks%'"
        return bool(await pool.fetch(kill + " AND pid <> pg_backend_pid() AND query LIKE '%run_urls%'"))

    await until(killed, every=0.005)
    await commit
    assert await published(pool) == []
    assert (await api.get(f"/api/admin/runs/{run['run_id']}")).json()["state"] == "collecting"
    await make_tend(pool, bus).round()
    assert len(await published(pool)) == 30_001
    assert (await api.get(f"/api/admin/runs/{run['run_id']}")).json()["new_tasks"] == 30_001


async def test_s20_a_start_page_without_urls_aborts_the_run(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    run = await begin_run(api)
    await answer_all(pool, {start_url(1): (["a"], None), start_url(2): ([], None)})
    await make_tend(pool, bus).round()
    told = (await api.get(f"/api/admin/runs/{run['run_id']}")).json()
    assert (told["state"], told["gate"]) == ("aborted", "empty")
    assert start_url(2) in told["reason"]
    assert await published(pool) == []
    kept = (await api.get(f"/api/admin/runs/{run['run_id']}/urls")).json()["items"]
    assert kept == [{"url": f"http://{HOST}/p/a", "start_no": 1}], "people can see what it had"
    again = await begin_run(api, allow_empty=True)
    await answer_all(pool, {start_url(1): (["a"], None), start_url(2): ([], None)})
    await make_tend(pool, bus).round()
    assert (await api.get(f"/api/admin/runs/{again['run_id']}")).json()["state"] == "committed"


async def test_s20_network_errors_are_retried_and_remembered(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    run = await begin_run(api, starts=1, max_retries=30)
    for number in range(FAILURES_KEPT + 5):
        (permit,) = (await granted(pool)).values()
        await make_settle(pool).settle([unreachable(permit, proxy_id=number + 1, error=f"reset {number}")])
        await come_due(pool)
    (page,) = (await api.get(f"/api/admin/runs/{run['run_id']}/start-pages")).json()["items"]
    assert (page["state"], page["completed"], page["failure_count"]) == ("paginating", False, FAILURES_KEPT + 5)
    assert [one["proxy_id"] for one in page["failure_history"]] == list(range(6, FAILURES_KEPT + 6)), "bounded"
    assert page["failure_history"][-1]["error"] == f"reset {FAILURES_KEPT + 4}"
    (permit,) = (await granted(pool)).values()
    await make_settle(pool).settle([blocked(permit, proxy_id=99)])
    await come_due(pool)
    await answer_all(pool, {start_url(1): (["a"], None)})
    await make_tend(pool, bus).round()
    assert await published(pool) == ["a"]


@pytest.mark.parametrize(
    ("policy", "state", "found"),
    [
        ({}, "aborted", []),
        ({"on_failed_start_page": "skip"}, "committed", ["b", "c", "d"]),
        ({"on_failed_start_page": "quorum", "quorum": 0.6}, "committed", ["b", "c", "d"]),
        ({"on_failed_start_page": "quorum", "quorum": 0.7}, "aborted", []),
    ],
)
async def test_s20_what_a_failed_start_page_means_is_for_the_caller_to_say(
    pool: Pool, bus: Bus, api: httpx.AsyncClient, policy: dict[str, Any], state: str, found: list[str]
) -> None:
    run = await begin_run(api, starts=3, max_retries=0, **policy)
    permits = await granted(pool)
    # It has found something, and the other start pages some of the same, before it fails.
    await make_settle(pool).settle([read(permits[start_url(1)], ["a", "b"], after=SECOND)])
    await make_settle(pool).settle(
        [
            read(permits[start_url(2)], ["b", "c"]),
            read(permits[start_url(3)], ["d"]),
            unreachable((await granted(pool))[SECOND]),
        ]
    )
    await answer_all(pool, {})
    await make_tend(pool, bus).round()
    told = (await api.get(f"/api/admin/runs/{run['run_id']}")).json()
    assert told["state"] == state, told
    assert told["gate"] == (None if found else "missing")
    assert await published(pool) == found, "half a list is no list"


async def test_s20_an_aborted_run_asks_for_nothing_more(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    run = await begin_run(api, starts=3, max_retries=0)
    permits = await granted(pool)
    await make_settle(pool).settle(
        [read(permits[start_url(2)], ["a"], after=SECOND), unreachable(permits[start_url(1)])]
    )
    await make_tend(pool, bus).round()
    told = (await api.get(f"/api/admin/runs/{run['run_id']}")).json()
    assert (told["state"], told["gate"]) == ("aborted", "missing")
    assert await granted(pool) == {}
    await make_settle(pool).settle([read(permits[start_url(3)], ["late"], after=SECOND)])
    assert await pool.fetchval("SELECT count(*) FROM run_urls WHERE url LIKE '%late'") == 0
    assert await granted(pool) == {}
    await check_all_is_right(pool)


async def test_s20_the_end_of_a_list_is_no_failure_and_a_missing_start_page_is(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    run = await begin_run(api)
    permits = await granted(pool)
    await make_settle(pool).settle([read(permits[start_url(1)], ["a"], after=SECOND)])
    await make_settle(pool).settle([missing((await granted(pool))[SECOND]), missing(permits[start_url(2)])])
    first, second = await pages_of(pool, run["run_id"])
    assert (first["state"], first["failure_count"]) == ("completed", 0)
    assert (second["state"], second["reason"]) == ("failed", f"{start_url(2)}: status 404")


async def test_s20_a_run_that_shrank_is_not_published(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    for items, share, ending in (
        (10, None, "committed"),
        (7, 0.8, "aborted"),
        (8, 0.8, "committed"),
        (7, 0.8, "committed"),
    ):
        run = await begin_run(api, starts=1, least_share=share)
        await answer_all(pool, {start_url(1): ([f"{run['run_id']}-{n}" for n in range(items)], None)})
        await make_tend(pool, bus).round()
        told = (await api.get(f"/api/admin/runs/{run['run_id']}")).json()
        assert told["state"] == ending, told
        assert told["gate"] == ("shrink" if ending == "aborted" else None)


async def test_s20_a_list_without_an_end_is_not_followed_past_its_limit(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    run = await begin_run(api, starts=1, max_list_pages=5)
    site = {start_url(1): (["0"], f"http://{HOST}/list/1/1")}
    site |= {f"http://{HOST}/list/1/{n}": ([str(n)], f"http://{HOST}/list/1/{n + 1}") for n in range(1, 10)}
    await answer_all(pool, site)
    (page,) = await pages_of(pool, run["run_id"])
    assert (page["state"], page["pages"]) == ("failed", 5)
    assert "max_list_pages" in page["reason"]


async def test_s20_facts_that_come_late_or_twice_change_nothing(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    run = await begin_run(api, starts=1)
    permits = await granted(pool)
    fact = read(permits[start_url(1)], ["a"], after=SECOND)
    await make_settle(pool).settle([fact, fact])
    await make_settle(pool).settle([fact, unreachable(permits[start_url(1)])])
    (page,) = await pages_of(pool, run["run_id"])
    assert (page["pages"], page["open_pages"], page["collected"], page["failure_count"]) == (2, 1, 1, 0)
    await answer_all(pool, {SECOND: (["b"], start_url(1))})
    (page,) = await pages_of(pool, run["run_id"])
    assert (page["state"], page["pages"]) == ("completed", 3), (
        "a list that leads back has ended, after a look past its end"
    )


async def test_s20_a_start_page_that_robots_txt_forbids_fails_with_that_reason(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    await make_domain(pool, "strict.test", obey_robots=True)
    body = {"site": "strict.test", "start_pages": ["http://strict.test/list"]}
    run = (await api.post("/api/admin/runs", json=body)).json()
    assert await granted(pool) == {}, "robots.txt is asked for first"
    (robots,) = await grant(pool)
    rules = {"robots": b"User-agent: *\nDisallow: /list"}
    await make_settle(pool, bodies=rules).settle([fetched(robots, body_key="robots", kind=OrderKind.ORDER_KIND_ROBOTS)])
    assert await granted(pool) == {}
    await make_tend(pool, bus).round()
    told = (await api.get(f"/api/admin/runs/{run['run_id']}")).json()
    assert (told["state"], told["gate"]) == ("aborted", "missing")
    assert "robots_disallowed" in told["reason"]


async def test_s19_a_list_page_that_loses_everybody_who_takes_it_is_given_up(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    run = await begin_run(api, starts=1)
    for _ in range(MAX_LOSSES + 1):
        assert len(await granted(pool)) == 1
        await pool.execute("UPDATE permits SET lease_until = now() - interval '1 s'")
        await make_reclaim(pool, bus).expire_permits()
    (page,) = await pages_of(pool, run["run_id"])
    assert (page["state"], page["failure_count"], page["open_pages"]) == ("failed", 1, 0)


async def test_s19_links_of_very_long_pages_are_all_collected(pool: Pool, bus: Bus, api: httpx.AsyncClient) -> None:
    await begin_run(api, starts=1)
    (permit,) = (await granted(pool)).values()
    part = LinksDiscovered(task_id=permit.task_id, attempt=permit.attempt, part=1, links=links(["x", "y"]))
    await Discover(pool)._take(part)
    await Discover(pool)._take(part)
    await make_settle(pool).settle([read(permit, ["a"], parts=1)])
    await answer_all(pool, {})
    await make_tend(pool, bus).round()
    assert await published(pool) == ["a", "x", "y"]


async def test_s19_only_links_of_the_site_that_are_wanted_are_collected(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    await make_domain(pool, "other.test")
    run = await begin_run(api, starts=1, item_pattern=r"/p/\d+$")
    (permit,) = (await granted(pool)).values()
    fact = read(permit, ["1", "2", "about"])
    fact.links.add(url="http://other.test/p/3")
    await make_settle(pool).settle([fact])
    found = (await api.get(f"/api/admin/runs/{run['run_id']}/urls?limit=1")).json()
    rest = (await api.get(f"/api/admin/runs/{run['run_id']}/urls", params={"after": found["next"]})).json()
    urls = [one["url"] for one in found["items"] + rest["items"]]
    assert sorted(urls) == [f"http://{HOST}/p/1", f"http://{HOST}/p/2"]


@pytest.mark.parametrize("recrawl", [False, True])
async def test_s20_known_pages_are_crawled_again_where_the_run_asks_for_it(
    pool: Pool, bus: Bus, api: httpx.AsyncClient, *, recrawl: bool
) -> None:
    for _ in range(2):
        run = await begin_run(api, starts=1, recrawl=recrawl)
        await answer_all(pool, {start_url(1): (["a", "b"], None)})
        await make_tend(pool, bus).round()
        permits = await granted(pool)
        told = (await api.get(f"/api/admin/runs/{run['run_id']}")).json()
        await make_settle(pool).settle([read(permit, []) for permit in permits.values()])
    assert (told["urls"], told["new_tasks"]) == (2, 0)
    assert len(permits) == (2 if recrawl else 0)
    batch = (await api.get(f"/api/admin/batches/{told['batch']}")).json()
    assert (batch["pages"], batch["open_tasks"]) == ((2, 0) if recrawl else (0, 0))
    await check_all_is_right(pool)


async def test_s19_the_end_of_a_run_is_told_to_its_webhook_and_to_other_services(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    run = await begin_run(api, starts=1, webhook_url="http://hooks.test/x")
    await answer_all(pool, {start_url(1): (["a"], None)})
    before = REGISTRY.get_sample_value("limpet_scheduler_runs_total", {"result": "committed"}) or 0
    await make_tend(pool, bus).round()
    await make_tend(pool, bus).round()
    assert REGISTRY.get_sample_value("limpet_scheduler_runs_total", {"result": "committed"}) == before + 1
    (delivery,) = await pool.fetch("SELECT event, body FROM webhook_deliveries")
    assert delivery["event"] == "run.committed"
    assert run["run_id"] in delivery["body"]
    domain_id = await pool.fetchval("SELECT domain_id FROM domains")
    message = await bus.client.jetstream().get_last_msg("FACTS", f"run.ended.{domain_id}")
    assert message.data is not None
    event = RunEnded.FromString(message.data)
    assert (event.run_id, event.domain, event.result) == (run["run_id"], HOST, RunResult.RUN_RESULT_COMMITTED)
    assert (event.url_count, event.new_task_count) == (1, 1)


async def test_s19_what_cannot_be_run_is_refused_by_name(pool: Pool, api: httpx.AsyncClient) -> None:
    good: dict[str, Any] = {"site": HOST, "start_pages": [start_url(1)]}
    for wrong, field in (
        ({"site": "unknown.test", "start_pages": ["http://unknown.test/"]}, "site"),
        ({"start_pages": ["ftp://shop.test/"]}, "start_pages.0"),
        ({"start_pages": [start_url(1), "http://other.test/"]}, "start_pages.1"),
        ({"start_pages": []}, "start_pages"),
        ({"item_pattern": "("}, "item_pattern"),
        ({"quorum": 0}, "quorum"),
        ({"on_failed_start_page": "hope"}, "on_failed_start_page"),
        ({"run_id": "x"}, "run_id"),
        ({"webhook_url": "nowhere"}, "webhook_url"),
        ({"colour": "red"}, "colour"),
    ):
        assert fields(await api.post("/api/admin/runs", json={**good, **wrong}), 422) == [field]
    assert fields(await api.get(f"/api/admin/runs/{new_id()}"), 404) == ["run_id"]


async def test_s19_runs_that_ended_long_ago_go_and_the_last_good_one_stays(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    async def ended(items: list[str], **options: Any) -> str:
        run = await begin_run(api, starts=1, **options)
        await answer_all(pool, {start_url(1): (items, None)})
        await make_tend(pool, bus).round()
        return str(run["run_id"])

    old, good, empty, last = await ended(["a"]), await ended(["b"]), await ended([]), await ended([])
    retention = Retention(pool, keep={}, runs_kept=timedelta(days=90))
    await retention.round()
    assert await pool.fetchval("SELECT count(*) FROM runs") == 4, "they are young"
    await pool.execute("UPDATE runs SET ended_at = ended_at - interval '91 days'")
    await pool.execute("INSERT INTO run_urls VALUES ($1, sha256('x'), 1, 'x')", UUID(last))
    await retention.round()
    left = {str(row["run_id"]) for row in await pool.fetch("SELECT run_id FROM runs")}
    assert left == {good, last}, (old, empty)
    pages = await pool.fetchval("SELECT sum(pages) FROM run_start_pages")
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks WHERE kind = 'list'") == pages
    assert await pool.fetchval("SELECT count(*) FROM run_pages") == pages
    assert await pool.fetchval("SELECT count(*) FROM run_start_pages") == 2
    assert await pool.fetchval("SELECT count(*) FROM run_urls") == 0, "what an aborted run had is kept for a week"
    assert await published(pool) == ["a", "b"], "what they published stays"
    await check_all_is_right(pool)
