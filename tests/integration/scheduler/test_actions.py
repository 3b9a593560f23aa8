"""S3, S13: what a person does to a task, from every status that it may have."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from limpet.contracts.events.v1.parse_pb2 import PageParsed
from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.scheduler.command import EVENTS, Command
from limpet.scheduler.lifecycle import OPEN, PARSE_PHASE, TERMINAL, TRANSITIONS, Status
from limpet.scheduler.reclaim import Reclaim
from tests.support.scheduler_api import as_role, fields, problem
from tests.support.scheduling import come_due, grant, in_flight, make_domain, make_settle, page, status_of, submit_pages
from tests.support.task_states import ask, check_all_is_right, gone, lost, make_task, make_tasks, ripen

PATH = "/api/admin/tasks"
# Where each command leads, by where the task was.
TARGETS = {
    Command.PAUSE: dict.fromkeys(OPEN, Status.PAUSED),
    Command.RESUME: {Status.PAUSED: Status.PENDING},
    Command.CANCEL: dict.fromkeys(OPEN | {Status.PAUSED}, Status.CANCELLED),
    Command.RESTART: dict.fromkeys(TERMINAL, Status.PENDING),
    # The failed and the cancelled ones have no page here.
    Command.RESTART_PARSING: dict.fromkeys((Status.COMPLETED, Status.DOWNLOADED), Status.DOWNLOADED),
}
UNCHANGED = {(Command.PAUSE, Status.PAUSED), (Command.CANCEL, Status.CANCELLED), (Command.RESTART, Status.PENDING)}


async def look(pool: Pool, task_id: int) -> dict[str, Any]:
    row = await pool.fetchrow("SELECT * FROM crawl_tasks WHERE task_id = $1", task_id)
    assert row is not None
    return dict(row)


def reclaim_of(pool: Pool, bus: Bus) -> Reclaim:
    return Reclaim(pool, bus=bus, parse_lease=timedelta(seconds=60), every=1, freed=lambda: None)


@pytest.mark.parametrize("command", list(Command))
async def test_s3_s13_a_command_works_from_its_statuses_and_is_refused_from_all_others(
    pool: Pool, api: httpx.AsyncClient, command: Command
) -> None:
    await make_domain(pool)
    tasks = await make_tasks(pool)
    await check_all_is_right(pool)
    for status, task_id in tasks.items():
        before = await look(pool, task_id)
        audited = await pool.fetchval("SELECT count(*) FROM audit WHERE task_id = $1", task_id)
        answer = await api.post(f"{PATH}/{task_id}/{command}")
        after = await look(pool, task_id)
        told = await pool.fetchval("SELECT count(*) FROM audit WHERE task_id = $1", task_id)
        if target := TARGETS[command].get(status):
            assert answer.status_code == 200, (status, answer.text)
            assert (answer.json()["status"], after["status"]) == (target, target)
            assert answer.json()["message"]
            assert told == audited + (target != status)
            last = (await api.get(f"{PATH}/{task_id}/audit")).json()["items"][-1]
            if target != status:
                assert (last["source"], last["target"], last["event"], last["actor"]) == (
                    status, target, EVENTS[command], "admin",
                )  # fmt: skip
        else:
            assert after == before, status
            assert told == audited
            if (command, status) in UNCHANGED:
                assert answer.status_code == 200
                assert "already" in answer.json()["message"]
            else:
                assert fields(answer, 409) == ["status"]
                said = problem(answer, 409)["detail"]
                assert f"is {status}" in said
                allowed = TRANSITIONS[EVENTS[command]].sources
                assert status in allowed or all(source in said for source in allowed)
        await check_all_is_right(pool)


@pytest.mark.parametrize("command", [Command.PAUSE, Command.CANCEL, Command.RESTART])
async def test_s13_a_command_given_twice_does_the_same_as_given_once(
    pool: Pool, api: httpx.AsyncClient, command: Command
) -> None:
    await make_domain(pool)
    task_id = await make_task(pool, Status.COMPLETED if command is Command.RESTART else Status.QUEUED)
    first = (await api.post(f"{PATH}/{task_id}/{command}")).json()
    again = await api.post(f"{PATH}/{task_id}/{command}")
    assert again.status_code == 200
    assert {**again.json(), "message": ""} == {**first, "message": ""}
    await check_all_is_right(pool)


async def test_s13_only_operators_act_and_unknown_tasks_are_not_found(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool)
    task_id = await make_task(pool, Status.PENDING)
    for command in Command:
        assert problem(await api.post(f"{PATH}/{task_id}/{command}", headers=as_role("read")), 403)
        for unknown in ("999", "0", str(1 << 63)):
            assert fields(await api.post(f"{PATH}/{unknown}/{command}"), 404) == ["task_id"]
    assert problem(await api.patch(f"{PATH}/{task_id}/priority", json={"priority": 1}, headers=as_role("read")), 403)
    assert fields(await api.patch(f"{PATH}/999/priority", json={"priority": 1}), 404) == ["task_id"]
    answer = await api.post(f"{PATH}/{task_id}/pause", headers=as_role("operate"))
    assert answer.json()["status"] == "paused"
    last = (await api.get(f"{PATH}/{task_id}/audit", headers=as_role("read"))).json()["items"][-1]
    assert last["actor"] == "operate"


async def test_s13_a_restart_takes_a_priority_and_a_time_and_resets_what_was_counted(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    await make_domain(pool)
    task_id = await make_task(pool, Status.FAILED)
    at = datetime.now(UTC) + timedelta(hours=1)
    body = {"reset_retry_count": True, "priority": 1, "scheduled_at": at.isoformat()}
    answer = (await api.post(f"{PATH}/{task_id}/restart", json=body)).json()
    assert answer["message"] == "Task restarted successfully"
    assert (answer["status"], answer["retry_count"], answer["priority"]) == ("pending", 0, 1)
    assert datetime.fromisoformat(answer["scheduled_at"]) == at
    assert (answer["error_message"], answer["completed_at"], answer["next_crawl_at"]) == (None, None, None)
    await check_all_is_right(pool)
    assert await grant(pool) == []
    await come_due(pool)
    (permit,) = await grant(pool)
    assert permit.priority == 1
    for wrong in ({"priority": 0}, {"priority": 11}, {"scheduled_at": "2030-01-01T00:00:00"}, {"scheduled": 1}):
        assert fields(await api.post(f"{PATH}/{task_id}/restart", json=wrong), 422) == list(wrong)


async def test_s13_a_restart_may_keep_what_was_counted(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1, max_retries=1)
    settle = make_settle(pool)
    (first,) = await grant(pool)
    await settle.settle([lost(first)])
    await come_due(pool)
    (second,) = await grant(pool)
    await settle.settle([lost(second)])
    assert await status_of(pool, first.task_id) == "failed"
    answer = await api.post(f"{PATH}/{first.task_id}/restart", json={"reset_retry_count": False})
    assert (answer.json()["status"], answer.json()["retry_count"]) == ("pending", 2)
    (third,) = await grant(pool)
    await settle.settle([lost(third)])
    assert await status_of(pool, first.task_id) == "failed"
    await api.post(f"{PATH}/{first.task_id}/restart")
    assert (await look(pool, first.task_id))["fetch_errors"] == 0
    await check_all_is_right(pool)


async def test_s13_a_restarted_task_is_not_moved_by_what_was_said_of_its_last_crawl(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    await api.post(f"{PATH}/{permit.task_id}/cancel")
    assert await in_flight(pool) == (1, 1)
    await api.post(f"{PATH}/{permit.task_id}/restart")
    await make_settle(pool).settle([PageParsed(page=page(permit))])
    assert await status_of(pool, permit.task_id) == "pending"
    assert await in_flight(pool) == (0, 0)
    await check_all_is_right(pool)


async def test_s13_restart_parsing_parses_the_stored_page_and_fetches_nothing(
    pool: Pool, api: httpx.AsyncClient, bus: Bus
) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    settle = make_settle(pool)
    await settle.settle([PageParsed(page=page(permit))])
    answer = (await api.post(f"{PATH}/{permit.task_id}/restart-parsing", json={"reset_retry_count": True})).json()
    assert (answer["status"], answer["retry_count"], answer["next_crawl_at"]) == ("downloaded", 0, None)
    await check_all_is_right(pool)
    assert await grant(pool) == []
    await bus.ensure()
    assert await reclaim_of(pool, bus).ask_parses() == 1
    await settle.settle([PageParsed(page=page(permit))])
    assert await status_of(pool, permit.task_id) == "completed"
    await check_all_is_right(pool)


async def test_s13_restart_parsing_works_with_the_page_of_an_earlier_crawl(
    pool: Pool, api: httpx.AsyncClient, bus: Bus
) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (first,) = await grant(pool)
    settle = make_settle(pool)
    await settle.settle([PageParsed(page=page(first))])
    await api.post(f"{PATH}/{first.task_id}/restart")
    (second,) = await grant(pool)
    await settle.settle([gone(second)])
    assert (await api.post(f"{PATH}/{first.task_id}/restart-parsing")).status_code == 200
    await bus.ensure()
    assert await reclaim_of(pool, bus).ask_parses() == 1
    await settle.settle([PageParsed(page=page(first))])
    assert await status_of(pool, first.task_id) == "completed"
    await check_all_is_right(pool)


async def test_s13_restart_failed_takes_the_failed_ones_of_a_domain_since_a_time_up_to_a_limit(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    for host in ("a.test", "b.test"):
        await make_domain(pool, host)
        await submit_pages(pool, 3, host=host)
    await make_settle(pool).settle([gone(permit) for permit in await grant(pool)])
    of_b = [row[0] for row in await pool.fetch("SELECT task_id FROM crawl_tasks WHERE url LIKE '%b.test%' ORDER BY 1")]
    await pool.execute("UPDATE crawl_tasks SET completed_at = now() - interval '2 days' WHERE task_id = $1", of_b[0])
    since = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    body = {"domain": "b.test", "failed_after": since}
    answer = (await api.post(f"{PATH}/restart-failed", json={**body, "limit": 1})).json()
    assert answer == {"restarted": 1, "task_ids": of_b[1:2]}
    assert (await api.post(f"{PATH}/restart-failed", json=body)).json()["task_ids"] == of_b[2:]
    assert (await api.post(f"{PATH}/restart-failed", json=body)).json() == {"restarted": 0, "task_ids": []}
    assert (await api.post(f"{PATH}/restart-failed")).json()["restarted"] == 4
    await check_all_is_right(pool)
    assert len(await grant(pool)) == 6
    assert fields(await api.post(f"{PATH}/restart-failed", json={"domain": "c.test"}), 422) == ["domain"]
    assert fields(await api.post(f"{PATH}/restart-failed", json={"limit": 10_001}), 422) == ["limit"]


async def test_s13_a_new_priority_moves_a_due_task_in_the_queue_of_its_group(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    await make_domain(pool, max_concurrent_requests=1)
    await submit_pages(pool, 3, group_key="north")
    last = await pool.fetchval("SELECT max(task_id) FROM crawl_tasks")
    answer = (await api.patch(f"{PATH}/{last}/priority", json={"priority": 1})).json()
    assert (answer["priority"], answer["status"]) == (1, "pending")
    await check_all_is_right(pool)
    (permit,) = await grant(pool)
    assert (permit.task_id, permit.priority) == (last, 1)
    for wrong in (0, 11, "1", True, None):
        assert fields(await api.patch(f"{PATH}/{last}/priority", json={"priority": wrong}), 422) == ["priority"]


async def test_s13_a_priority_may_be_changed_in_every_status(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool)
    for status, task_id in (await make_tasks(pool)).items():
        answer = await api.patch(f"{PATH}/{task_id}/priority", json={"priority": 2})
        assert (answer.status_code, answer.json()["status"], answer.json()["priority"]) == (200, status, 2)
        await check_all_is_right(pool)


@pytest.mark.parametrize("status", sorted(PARSE_PHASE))
async def test_s13_a_task_paused_with_its_page_goes_on_with_it(
    pool: Pool, api: httpx.AsyncClient, bus: Bus, status: Status
) -> None:
    await make_domain(pool)
    task_id = await make_task(pool, status)
    before = await look(pool, task_id)
    assert (await api.post(f"{PATH}/{task_id}/pause")).json()["paused_from"] == status
    await check_all_is_right(pool)
    answer = (await api.post(f"{PATH}/{task_id}/resume")).json()
    assert (answer["status"], answer["paused_from"]) == ("downloaded", None)
    after = await look(pool, task_id)
    counters = ("attempt", "crawl_base", "fetch_errors", "parse_errors", "blocks", "error_message", "page_fact")
    assert [after[name] for name in counters] == [before[name] for name in counters]
    assert await grant(pool) == []
    await bus.ensure()
    assert await reclaim_of(pool, bus).ask_parses() == 1
    await check_all_is_right(pool)


async def test_s13_a_page_that_comes_while_its_task_is_paused_is_not_fetched_again(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    await api.post(f"{PATH}/{permit.task_id}/pause")
    assert await in_flight(pool) == (1, 1), "the request is under way, and counts until it is heard of"
    await make_settle(pool).settle([page(permit)])
    assert await in_flight(pool) == (0, 0)
    assert await status_of(pool, permit.task_id) == "paused"
    await check_all_is_right(pool)
    assert (await api.post(f"{PATH}/{permit.task_id}/resume")).json()["status"] == "downloaded"
    assert await grant(pool) == []
    await check_all_is_right(pool)


async def test_s13_a_task_resumed_while_its_request_is_out_takes_the_page_that_comes_first(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (first,) = await grant(pool)
    await api.post(f"{PATH}/{first.task_id}/pause")
    assert (await api.post(f"{PATH}/{first.task_id}/resume")).json()["status"] == "pending"
    (second,) = await grant(pool)
    assert await in_flight(pool) == (2, 2)
    settle = make_settle(pool)
    await settle.settle([page(first)])
    assert await status_of(pool, first.task_id) == "queued_parse"
    await settle.settle([page(second)])
    assert await in_flight(pool) == (0, 0)
    await check_all_is_right(pool)


async def test_s13_a_paused_task_keeps_its_time_its_error_and_its_note(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool)
    await submit_pages(pool, 1)
    (permit,) = await grant(pool)
    await make_settle(pool).settle([lost(permit)])
    before = await look(pool, permit.task_id)
    assert (before["note"], before["error_message"]) == ("retry", "reset")
    await api.post(f"{PATH}/{permit.task_id}/pause")
    await check_all_is_right(pool)
    await ripen(pool)
    await api.post(f"{PATH}/{permit.task_id}/resume")
    after = await look(pool, permit.task_id)
    kept = ("status", "scheduled_at", "note", "error_message", "fetch_errors", "attempt", "proxy_id")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    await check_all_is_right(pool)
    await api.post(f"{PATH}/{permit.task_id}/pause")
    await pool.execute("UPDATE crawl_tasks SET scheduled_at = now() - interval '1 hour'")
    await api.post(f"{PATH}/{permit.task_id}/resume")
    await check_all_is_right(pool)
    assert len(await grant(pool)) == 1


async def test_s13_a_paused_or_cancelled_task_is_not_dispatched(pool: Pool) -> None:
    await make_domain(pool)
    await submit_pages(pool, 4, group_key="north")
    ids = [row[0] for row in await pool.fetch("SELECT task_id FROM crawl_tasks ORDER BY 1")]
    await ask(pool, Command.PAUSE, ids[0])
    await ask(pool, Command.CANCEL, ids[1])
    assert sorted(permit.task_id for permit in await grant(pool)) == ids[2:]
    await check_all_is_right(pool)


async def test_s13_robots_tasks_are_not_for_people(pool: Pool, api: httpx.AsyncClient) -> None:
    await make_domain(pool, obey_robots=True)
    await submit_pages(pool, 1)
    await grant(pool)
    (robots,) = (await api.get(PATH, params={"kind": "robots"})).json()["items"]
    assert [item["kind"] for item in (await api.get(PATH)).json()["items"]] == ["page"]
    for command in Command:
        assert fields(await api.post(f"{PATH}/{robots['task_id']}/{command}"), 409) == ["status"]
    assert fields(await api.patch(f"{PATH}/{robots['task_id']}/priority", json={"priority": 3}), 409) == ["status"]


async def test_s13_people_and_schedulers_at_the_same_moment_leave_all_in_order(
    pool: Pool, api: httpx.AsyncClient
) -> None:
    await make_domain(pool, max_per_group=3)
    await submit_pages(pool, 30, group_key="north")
    ids = [row[0] for row in await pool.fetch("SELECT task_id FROM crawl_tasks ORDER BY 1")]
    settle = make_settle(pool)

    async def serve() -> None:
        for _ in range(8):
            permits = await grant(pool)
            await settle.settle([PageParsed(page=page(permit)) for permit in permits])

    async def meddle(command: str) -> None:
        for task_id in ids:
            answer = await api.post(f"{PATH}/{task_id}/{command}")
            assert answer.status_code in (200, 409), answer.text

    async def prefer(priority: int) -> None:
        for task_id in reversed(ids):
            assert (await api.patch(f"{PATH}/{task_id}/priority", json={"priority": priority})).status_code == 200

    meddlers = [meddle(command) for command in ("pause", "resume", "cancel", "restart")]
    await asyncio.gather(serve(), serve(), *meddlers, prefer(1), prefer(9))
    await check_all_is_right(pool)
    assert await in_flight(pool) == (0, 0)
