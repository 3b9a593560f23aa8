"""S17, S18: tasks that wait for others, and those who are told when a task ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from limpet.contracts.events.v1.parse_pb2 import PageParsed
from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.scheduler.command import Command
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.signature import Signer
from tests.conftest import PoolFactory
from tests.support.scheduler_api import fields, scheduler_api
from tests.support.scheduling import grant, make_domain, make_settle, page, status_of
from tests.support.task_states import ask, check_all_is_right, gone, make_task, make_tasks, ripen

PATH = "/api/admin/tasks"


@pytest.fixture
async def pool(pool_of: PoolFactory) -> Pool:
    pool = await pool_of("limpet.scheduler")
    await make_domain(pool)
    return pool


async def add(api: httpx.AsyncClient, path: str, **options: Any) -> int:
    answer = await api.post(PATH, json={"url": f"http://shop.test{path}", **options})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["task_id"])


async def told(pool: Pool) -> list[dict[str, Any]]:
    return [json.loads(row[0]) for row in await pool.fetch("SELECT body FROM webhook_deliveries ORDER BY delivery_id")]


async def test_s17_a_child_becomes_due_only_when_its_parent_has_completed(pool: Pool, api: httpx.AsyncClient) -> None:
    parent = await add(api, "/list")
    child = await add(api, "/item", parent_task_id=parent)
    grandchild = await add(api, "/item/review", parent_task_id=child)
    await check_all_is_right(pool)
    view = (await api.get(f"{PATH}/{child}")).json()
    assert (view["parent_task_id"], view["awaits_parent"], view["on_parent_failure"]) == (parent, True, "cancel")
    settle = make_settle(pool)
    for expected in (parent, child, grandchild):
        (permit,) = await grant(pool)
        assert permit.task_id == expected
        await settle.settle([page(permit)])
        await ripen(pool)
        assert await grant(pool) == []
        await settle.settle([PageParsed(page=page(permit))])
        await ripen(pool)
        await check_all_is_right(pool)
    assert await pool.fetchval("SELECT count(*) FROM parent_ends") == 0


async def test_s17_a_failed_parent_cancels_or_releases_its_children_as_they_chose(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    parent = await add(api, "/list")
    cancelled = await add(api, "/a", parent_task_id=parent)
    below = await add(api, "/a/b", parent_task_id=cancelled)
    released = await add(api, "/c", parent_task_id=parent, on_parent_failure="release")
    (permit,) = await grant(pool)
    await make_settle(pool).settle([gone(permit)])
    await ripen(pool)
    await ripen(pool)
    await check_all_is_right(pool)
    assert [await status_of(pool, one) for one in (cancelled, below, released)] == ["cancelled", "cancelled", "pending"]
    assert str(parent) in (await api.get(f"{PATH}/{cancelled}")).json()["error_message"]
    assert [permit.task_id for permit in await grant(pool)] == [released]


@pytest.mark.parametrize("choice", ["cancel", "release"])
async def test_s17_a_child_of_a_parent_in_any_status_waits_or_hears_at_once(
    pool: Pool, api: httpx.AsyncClient, choice: str
) -> None:
    parents = await make_tasks(pool)
    children = {
        status: await add(api, f"/of/{status}", parent_task_id=parent, on_parent_failure=choice)
        for status, parent in parents.items()
    }
    await check_all_is_right(pool)
    await ripen(pool)
    await check_all_is_right(pool)
    for status, child in children.items():
        view = (await api.get(f"{PATH}/{child}")).json()
        ended_badly = status in (Status.FAILED, Status.CANCELLED)
        assert view["status"] == ("cancelled" if ended_badly and choice == "cancel" else "pending")
        assert view["awaits_parent"] == (not ended_badly and status is not Status.COMPLETED)
    assert await pool.fetchval("SELECT count(*) FROM parent_ends") == 0


async def test_s17_an_unknown_parent_is_refused_by_name(pool: Pool, api: httpx.AsyncClient) -> None:
    body = {"url": "http://shop.test/x", "parent_task_id": 77}
    assert fields(await api.post(PATH, json=body), 422) == ["parent_task_id"]
    answer = (await api.post(f"{PATH}/bulk", json={"tasks": [{"url": "http://shop.test/y"}, body]})).json()
    assert (answer["created"], [one["field"] for one in answer["refused"]]) == (1, ["tasks.1.parent_task_id"])
    for wrong in (0, -1, 1 << 63, "1", True):
        assert fields(await api.post(PATH, json={**body, "parent_task_id": wrong}), 422) == ["parent_task_id"]
    assert fields(await api.post(PATH, json={**body, "on_parent_failure": "cry"}), 422) == ["on_parent_failure"]


async def test_s17_a_robots_task_is_nobodys_parent(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool, "strict.test", obey_robots=True)
    assert (await api.post(PATH, json={"url": "http://strict.test/"})).status_code == 201
    await grant(pool)
    robots = await pool.fetchval("SELECT task_id FROM crawl_tasks WHERE kind = 'robots'")
    body = {"url": "http://shop.test/x", "parent_task_id": robots}
    assert fields(await api.post(PATH, json=body), 422) == ["parent_task_id"]


async def test_s17_a_child_may_be_paused_resumed_cancelled_and_restarted_while_it_waits(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    parent = await add(api, "/list")
    paused, cancelled = [await add(api, f"/{n}", parent_task_id=parent) for n in range(2)]
    await ask(pool, Command.PAUSE, paused)
    await ask(pool, Command.CANCEL, cancelled)
    await check_all_is_right(pool)
    await ask(pool, Command.RESUME, paused)
    await check_all_is_right(pool)
    assert [permit.task_id for permit in await grant(pool)] == [parent], "it still waits"
    await ask(pool, Command.PAUSE, paused)
    await ask(pool, Command.CANCEL, parent)
    await ripen(pool)
    assert await status_of(pool, paused) == "cancelled"
    await check_all_is_right(pool)
    assert await pool.fetchval("SELECT count(*) FROM parent_ends") == 0
    await ask(pool, Command.RESTART, cancelled)
    await check_all_is_right(pool)
    assert [permit.task_id for permit in await grant(pool)] == [cancelled], "a person asked for it"


async def test_s17_a_child_keeps_its_own_time(pool: Pool, api: httpx.AsyncClient) -> None:
    parent = await make_task(pool, Status.COMPLETED)
    child = await add(api, "/later", parent_task_id=parent, scheduled_at="2199-01-01T00:00:00Z")
    await check_all_is_right(pool)
    assert await grant(pool) == []
    assert await status_of(pool, child) == "pending"


async def test_s18_whoever_asked_is_told_when_a_task_ends(pool: Pool, api: httpx.AsyncClient) -> None:
    hook = "https://hooks.example/limpet"
    good, bad, given_up = [await add(api, f"/{n}", webhook_url=hook) for n in range(3)]
    await add(api, "/quiet")
    permits = {permit.task_id: permit for permit in await grant(pool)}
    await make_settle(pool).settle([PageParsed(page=page(permits[good])), gone(permits[bad])])
    await ask(pool, Command.CANCEL, given_up)
    await ask(pool, Command.CANCEL, given_up)
    bodies = {body["task"]["task_id"]: body for body in await told(pool)}
    assert {task_id: body["event"] for task_id, body in bodies.items()} == {
        good: "task.completed", bad: "task.failed", given_up: "task.cancelled",
    }  # fmt: skip
    assert bodies[good]["task"] == {
        "task_id": good, "url": "http://shop.test/0", "status": "completed", "attempt": 1, "http_status_code": 200,
        "error_message": None, "completed_at": bodies[good]["occurred_at"], "batch": None,
    }  # fmt: skip
    assert bodies[bad]["task"]["error_message"] == "404"
    assert len(await told(pool)) == 3


async def test_s18_a_webhook_is_checked_before_a_task_is_taken(pool: Pool, api: httpx.AsyncClient, bus: Bus) -> None:
    body = {"url": "http://shop.test/x", "webhook_url": "ftp://hooks.example/"}
    assert fields(await api.post(PATH, json=body), 422) == ["webhook_url"]
    many = {"tasks": [{"url": "http://shop.test/y"}, body]}
    assert fields(await api.post(f"{PATH}/bulk", json=many), 422) == ["tasks.1.webhook_url"]
    assert await pool.fetchval("SELECT count(*) FROM crawl_tasks") == 0
    async with scheduler_api(pool, bus, signer=Signer(b"")) as unsigned:
        body["webhook_url"] = "https://hooks.example/"
        assert fields(await unsigned.post(PATH, json=body), 409) == ["webhook_url"]


async def test_s13_json_lines_are_taken_like_a_list(pool: Pool, api: httpx.AsyncClient) -> None:
    async def stream() -> AsyncIterator[bytes]:
        """Cut anywhere."""
        text = b"\n".join(b'{"url": "http://shop.test/p/%d", "priority": 2}' % n for n in range(100)) + b"\n\n"
        for start in range(0, len(text), 37):
            yield text[start : start + 37]
        yield b'{"url": "http://shop.test/p/0"}\n{"url": "http://unknown.test/"}'

    headers = {"Content-Type": "application/x-ndjson"}
    answer = await api.post(f"{PATH}/bulk", content=stream(), headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["created"] == 100
    assert [one["field"] for one in answer.json()["refused"]] == ["tasks.101.url"]
    again = (await api.post(f"{PATH}/bulk", content=stream(), headers=headers)).json()
    assert (again["created"], again["known"]) == (0, 100)
    for lines, field in (
        (b'{"url": "http://shop.test/1"}\n{"url": 5}', "tasks.1.url"),
        (b'{"url": "http://shop.test/1"}\n{"url"', "tasks.1"),
        (b"", "tasks"),
        (b'{"url": "http://shop.test/1"}\n' * 10_001, "tasks"),
    ):
        assert fields(await api.post(f"{PATH}/bulk", content=lines, headers=headers), 422) == [field]
    unknown = await api.post(f"{PATH}/bulk?batch=none", content=b'{"url": "http://shop.test/1"}', headers=headers)
    assert fields(unknown, 422) == ["batch"]
    await check_all_is_right(pool)
