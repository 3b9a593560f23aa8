"""S16, S18: batches are looked at, paused, resumed, cancelled and restarted as one, and tell when they end."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from limpet.contracts.events.v1.parse_pb2 import PageParsed
from limpet.kit.pg import Pool
from limpet.scheduler.act import Wish, act_on_batch
from limpet.scheduler.command import Command
from limpet.scheduler.lifecycle import OPEN, TERMINAL, Status
from limpet.scheduler.submit import submit
from tests.conftest import PoolFactory
from tests.support.scheduler_api import as_role, fields, problem
from tests.support.scheduling import grant, in_flight, make_domain, make_settle, page
from tests.support.task_states import ask, check_all_is_right, gone, make_tasks, ripen

PATH = "/api/admin/batches"
REACHES = {
    Command.PAUSE: OPEN,
    Command.RESUME: {Status.PAUSED},
    Command.CANCEL: OPEN | {Status.PAUSED},
    Command.RESTART: TERMINAL,
}


@pytest.fixture
async def pool(pool_of: PoolFactory) -> Pool:
    pool = await pool_of("limpet.scheduler")
    await make_domain(pool)
    return pool


async def make_batch(api: httpx.AsyncClient, name: str = "spring", **options: Any) -> None:
    answer = await api.post(PATH, json={"name": name, **options})
    assert answer.status_code == 201, answer.text


async def progress(api: httpx.AsyncClient, name: str = "spring") -> dict[str, Any]:
    body: dict[str, Any] = (await api.get(f"{PATH}/{name}")).json()
    return body


async def fill(pool: Pool, count: int, *, name: str = "spring", **options: Any) -> None:
    await submit(pool, [{"url": f"http://shop.test/{name}/{n}", **options} for n in range(count)], batch=name)


@pytest.mark.parametrize("command", list(REACHES))
async def test_s16_a_command_reaches_those_of_a_batch_that_it_may_change_and_no_other_task(
    pool: Pool, api: httpx.AsyncClient, command: Command
) -> None:
    await make_batch(api)
    tasks = await make_tasks(pool, batch="spring")
    await make_batch(api, "autumn")
    await fill(pool, 3, name="autumn")
    others = await pool.fetch("SELECT * FROM crawl_tasks t JOIN batches b USING (batch_id) WHERE b.name = 'autumn'")
    await check_all_is_right(pool)
    before = {row["task_id"]: row["status"] for row in await pool.fetch("SELECT task_id, status FROM crawl_tasks")}
    answer = await api.post(f"{PATH}/spring/{command}")
    assert answer.json() == {"changed": len(REACHES[command])}
    after = {row["task_id"]: row["status"] for row in await pool.fetch("SELECT task_id, status FROM crawl_tasks")}
    changed = {status for status, task_id in tasks.items() if before[task_id] != after[task_id]}
    assert changed == REACHES[command]
    await check_all_is_right(pool)
    assert (await api.post(f"{PATH}/spring/{command}")).json() == {"changed": 0}
    assert others == await pool.fetch(
        "SELECT * FROM crawl_tasks t JOIN batches b USING (batch_id) WHERE b.name = 'autumn'"
    )


async def test_s16_a_large_batch_is_changed_in_chunks(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_batch(api)
    await fill(pool, 40, group_key="north")
    batch_id = (await progress(api))["batch_id"]
    for command, changed in (("pause", 40), ("pause", 0), ("resume", 40), ("cancel", 40), ("restart", 40)):
        assert await act_on_batch(pool, batch_id, Wish(Command(command), "operate"), size=7) == changed
        await check_all_is_right(pool)
    transactions = "SELECT count(DISTINCT xmin::text) FROM audit WHERE event = 'restarted'"
    assert await pool.fetchval(transactions) == 6


async def test_s16_progress_is_counted_by_status_and_knows_when_the_batch_ended(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    await make_batch(api)
    assert (await progress(api))["ended_at"] is None
    await fill(pool, 3, is_recurring=False)
    permits = await grant(pool)
    assert (await progress(api))["tasks"]["queued"] == 3
    await make_settle(pool).settle([PageParsed(page=page(permits[0])), gone(permits[1])])
    there = await progress(api)
    assert (there["open_tasks"], there["ended_at"], there["pages"]) == (1, None, 3)
    assert {status: count for status, count in there["tasks"].items() if count} == {
        "queued": 1, "completed": 1, "failed": 1,
    }  # fmt: skip
    await ask(pool, Command.CANCEL, permits[2].task_id)
    there = await progress(api)
    assert (there["open_tasks"], there["ended_at"] is not None) == (0, True)
    await api.post(f"{PATH}/spring/restart")
    there = await progress(api)
    assert (there["open_tasks"], there["ended_at"], there["tasks"]["pending"]) == (3, None, 3)
    await check_all_is_right(pool)


async def test_s16_a_paused_batch_fetches_nothing_and_keeps_what_comes(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_batch(api)
    await fill(pool, 3)
    (first,) = await grant(pool, window=1)
    await api.post(f"{PATH}/spring/pause")
    assert await grant(pool) == []
    await make_settle(pool).settle([page(first)])
    assert await in_flight(pool) == (0, 0)
    await check_all_is_right(pool)
    assert (await api.post(f"{PATH}/spring/resume")).json() == {"changed": 3}
    assert (await progress(api))["tasks"]["downloaded"] == 1
    assert len(await grant(pool)) == 2
    await check_all_is_right(pool)


async def test_s16_batches_are_listed_page_by_page(pool: Pool, api: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await make_batch(api, name)
    first = (await api.get(PATH, params={"limit": 2})).json()
    assert [item["name"] for item in first["items"]] == ["a", "b"]
    rest = (await api.get(PATH, params={"limit": 2, "after": first["next"]})).json()
    assert ([item["name"] for item in rest["items"]], rest["next"]) == (["c"], None)
    assert (rest["items"][0]["open_tasks"], rest["items"][0]["ended_at"]) == (0, None)


async def test_s16_an_unknown_batch_is_not_found_and_readers_change_nothing(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_batch(api)
    for command in REACHES:
        assert fields(await api.post(f"{PATH}/none/{command}"), 404) == ["name"]
        assert problem(await api.post(f"{PATH}/spring/{command}", headers=as_role("read")), 403)


async def test_s18_a_batch_tells_when_its_last_task_has_ended(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_batch(api, webhook_url="https://hooks.example/batch")
    await fill(pool, 3)
    permits = await grant(pool)
    settle = make_settle(pool)
    await settle.settle([PageParsed(page=page(permits[0])), gone(permits[1])])
    assert await pool.fetchval("SELECT count(*) FROM webhook_deliveries") == 0
    await settle.settle([PageParsed(page=page(permits[2]))])
    (body,) = [json.loads(row[0]) for row in await pool.fetch("SELECT body FROM webhook_deliveries")]
    assert (body["event"], body["batch"]["name"], body["batch"]["pages"]) == ("batch.ended", "spring", 3)
    assert {status: count for status, count in body["batch"]["tasks"].items() if count} == {"completed": 2, "failed": 1}
    await api.post(f"{PATH}/spring/restart")
    await api.post(f"{PATH}/spring/cancel")
    assert await pool.fetchval("SELECT count(*) FROM webhook_deliveries") == 2, "it ended again"
    assert fields(await api.post(PATH, json={"name": "x", "webhook_url": "nowhere"}), 422) == ["webhook_url"]
    await check_all_is_right(pool)


async def test_s16_a_batch_of_children_is_cancelled_with_those_who_wait(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_batch(api)
    await fill(pool, 1)
    parent = await pool.fetchval("SELECT task_id FROM crawl_tasks")
    await submit(pool, [{"url": "http://shop.test/child", "parent_task_id": parent}], batch="spring")
    await api.post(f"{PATH}/spring/cancel")
    await ripen(pool)
    await check_all_is_right(pool)
    assert (await progress(api))["tasks"]["cancelled"] == 2
    assert await pool.fetchval("SELECT count(*) FROM parent_ends") == 0
