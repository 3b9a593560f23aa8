"""S13: tasks are listed by filter, page by page, along an index whatever the filter."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from limpet.kit.pg import Pool
from limpet.scheduler.command import Command
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.store.batches import add_batch
from limpet.scheduler.store.task_lists import FAILED_TASKS, LIST_IN_HAND, LIST_TASKS, PLAN_EACH, TASKS_OF_BATCH
from limpet.scheduler.submit import submit
from tests.support.scheduler_api import fields
from tests.support.scheduling import make_domain, submit_pages
from tests.support.task_states import ask, make_tasks

PATH = "/api/admin/tasks"
ROWS = 60_000
# A million pages would plan the same way: many domains, one of them large, a few of everything else.
FILL = """
    INSERT INTO crawl_tasks (domain_id, url, url_hash, status, resting, completed_at, group_key, created_by, batch_id, kind)
    SELECT CASE WHEN n % 10 < 5 THEN 1 ELSE 2 + n % 200 END, 'http://shop.test/p/' || n, sha256(n::text::bytea),
           made.status, nullif(made.status, 'pending'), now(),
           CASE WHEN n % 100 = 0 THEN 'group-' || n % 500 END, 'api', CASE WHEN n % 50 = 0 THEN 1 + n % 4 END,
           CASE WHEN n % 1000 = 7 THEN 'robots' ELSE 'page' END
      FROM generate_series(1, $1) AS n
     CROSS JOIN LATERAL (SELECT CASE WHEN n % 100 = 1 THEN 'failed' WHEN n % 300 = 2 THEN 'cancelled'
                                     WHEN n % 3 = 0 THEN 'pending' ELSE 'completed' END AS status) AS made
"""


async def listed(api: httpx.AsyncClient, **filters: Any) -> list[dict[str, Any]]:
    answer = await api.get(PATH, params=filters)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_s13_each_status_lists_its_own(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool)
    tasks = await make_tasks(pool)
    for status, task_id in tasks.items():
        assert [item["task_id"] for item in await listed(api, status=status)] == [task_id]
        assert [item["task_id"] for item in await listed(api, status=status, domain="shop.test")] == [task_id]
        assert await listed(api, status=status, domain="other.test") == []
    assert len(await listed(api)) == len(Status)


async def test_s13_filters_narrow_a_list_together(pool: Pool, api: httpx.AsyncClient) -> None:
    for host in ("a.test", "b.test"):
        await make_domain(pool, host)
        await submit_pages(pool, 12, host=host, group_key="north" if host == "a.test" else None)
    async with pool.acquire() as conn:
        await add_batch(conn, name="spring", follow=False, recrawl=False, max_pages=None)
    await submit(pool, [{"url": "http://a.test/x?q=1"}], batch="spring", created_by="system")
    assert len(await listed(api, domain="a.test")) == 13
    assert len(await listed(api, group_key="north")) == 12
    assert len(await listed(api, group_key="north", domain="b.test")) == 0
    assert [item["url"] for item in await listed(api, batch="spring")] == ["http://a.test/x?q=1"]
    assert [item["batch"] for item in await listed(api, created_by="system")] == ["spring"]
    assert sorted(item["url"] for item in await listed(api, url_prefix="HTTP://A.test:80/p/1")) == [
        "http://a.test/p/1", "http://a.test/p/10", "http://a.test/p/11",
    ]  # fmt: skip
    assert await listed(api, url_prefix="http://a.test/P/1") == []
    assert len(await listed(api, url_prefix="http://b.test")) == 12
    assert fields(await api.get(PATH, params={"url_prefix": "a.test/p"}), 422) == ["url_prefix"]
    middle = datetime.now(UTC)
    first = (await listed(api))[0]["task_id"]
    await ask(pool, Command.PAUSE, first)
    assert [item["task_id"] for item in await listed(api, updated_since=middle.isoformat())] == [first]
    assert await listed(api, updated_since=(middle + timedelta(days=1)).isoformat()) == []
    assert fields(await api.get(PATH, params={"updated_since": "2030-01-01T00:00:00"}), 422) == ["updated_since"]
    assert fields(await api.get(PATH, params={"kind": "image"}), 422) == ["kind"]


async def test_s13_a_list_is_walked_page_by_page(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool)
    await submit_pages(pool, 25)
    seen: list[int] = []
    after: int | None = 0
    while after is not None:
        body = (await api.get(PATH, params={"status": "pending", "limit": 10, "after": after})).json()
        seen += [item["task_id"] for item in body["items"]]
        after = body["next"]
    assert seen == sorted(seen)
    assert len(set(seen)) == 25


async def test_s13_every_filter_is_answered_along_an_index(pool: Pool) -> None:
    await make_domain(pool)
    for n in range(201):
        await make_domain(pool, f"d{n}.test")
    async with pool.acquire() as conn:
        for n in range(4):
            await add_batch(conn, name=f"b{n}", follow=False, recrawl=False, max_pages=None)
    await pool.execute(FILL, ROWS)
    await pool.execute("VACUUM ANALYZE crawl_tasks")
    since = datetime.now(UTC)
    filters: list[dict[str, Any]] = [
        {}, {"kind": "robots"}, *({"status": status.value} for status in Status), {"domain": 1},
        {"domain": 9}, {"domain": 9, "status": "failed"}, {"domain": 1, "status": "pending"},
        {"batch": 2}, {"batch": 3, "status": "completed"}, {"group_key": "group-100"},
        {"group_key": "group-100", "domain": 1}, {"created_by": "api"}, {"updated_since": since},
        {"updated_since": since, "status": "failed"}, {"domain": 9, "url_prefix": "http://shop.test/p/1"},
    ]  # fmt: skip
    for wanted in filters:
        names = ("status", "domain", "batch", "group_key", "created_by", "updated_since", "url_prefix")
        sql = (
            LIST_IN_HAND
            if wanted.get("status") in ("queued", "crawling", "downloaded", "queued_parse", "parsing")
            else LIST_TASKS
        )
        await no_scan(pool, sql, 30_000, 100, wanted.get("kind", "page"), *(wanted.get(name) for name in names))
    for resting in (None, "paused", "completed", "failed", "cancelled"):
        await no_scan(pool, TASKS_OF_BATCH, 1, resting, 30_000, 100)
    for domain in (None, "shop.test", "d7.test"):
        await no_scan(pool, FAILED_TASKS, domain, None, 30_000, 100)


async def no_scan(pool: Pool, sql: str, *args: Any) -> None:
    """The plan walks an index of the tasks, not their table."""
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(PLAN_EACH)
        plan = json.loads(await conn.fetchval(f"EXPLAIN (FORMAT JSON) {sql}", *args))[0]["Plan"]
    assert "crawl_tasks" not in [node.get("Relation Name") for node in nodes(plan) if "Seq" in node["Node Type"]], args


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for below in plan.get("Plans", ()) for node in nodes(below))]
