"""Scheduled runs: at their times, once for however many were missed, and never two of a site at once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.scheduler.runs.calendar import Calendar
from tests.support.runs import HOST, answer_all, begin_run, make_tend, published, start_url
from tests.support.scheduler_api import fields
from tests.support.scheduling import make_domain

NIGHTLY: dict[str, Any] = {
    "name": "nightly", "site": HOST, "start_pages": [start_url(1)], "cron": "30 4 * * *", "zone": "Europe/Berlin",
}  # fmt: skip


@pytest.fixture(autouse=True)
async def shop(pool: Pool) -> None:
    await make_domain(pool)


def calendar(pool: Pool) -> Calendar:
    return Calendar(pool, every=1, freed=lambda: None)


async def miss(pool: Pool, *, days: int) -> None:
    await pool.execute("UPDATE run_schedules SET next_run_at = now() - make_interval(days => $1)", days)


async def test_s19_a_window_that_was_missed_many_times_makes_one_run(
    pool: Pool, bus: Bus, api: httpx.AsyncClient
) -> None:
    made = await api.post("/api/admin/run-schedules", json={**NIGHTLY, "priority": 3, "item_pattern": "/p/"})
    assert made.status_code == 201, made.text
    assert await calendar(pool).round() is None, "its time has not come"
    await miss(pool, days=5)
    begun = await asyncio.gather(*(calendar(pool).round() for _ in range(4)))
    assert [one.created for one in begun if one is not None] == [True]
    (run,) = (await api.get("/api/admin/runs")).json()["items"]
    assert (run["schedule"], run["created_by"], run["priority"], run["item_pattern"]) == (
        "nightly", "schedule:nightly", 3, "/p/",
    )  # fmt: skip
    told = (await api.get("/api/admin/run-schedules/nightly")).json()
    assert told["last_run_id"] == run["run_id"]
    assert told["next_run_at"] > told["last_run_at"], "the next time is one to come"
    await answer_all(pool, {start_url(1): (["a"], None)})
    await make_tend(pool, bus).round()
    assert await published(pool) == ["a"]


async def test_s19_a_run_that_is_live_serves_its_schedule(pool: Pool, api: httpx.AsyncClient) -> None:
    run = await begin_run(api)
    await api.post("/api/admin/run-schedules", json=NIGHTLY)
    await miss(pool, days=1)
    begun = await calendar(pool).round()
    assert begun is not None
    assert (str(begun.run_id), begun.created) == (run["run_id"], False)
    assert await calendar(pool).round() is None


async def test_s19_a_schedule_is_changed_switched_off_and_dropped(pool: Pool, api: httpx.AsyncClient) -> None:
    await api.post("/api/admin/run-schedules", json=NIGHTLY)
    assert fields(await api.post("/api/admin/run-schedules", json=NIGHTLY), 409) == ["name"]
    options = {"start_pages": [start_url(2)], "cron": "0 * * * *", "is_active": False}
    changed = (await api.put("/api/admin/run-schedules/nightly", json=options)).json()
    assert (changed["cron"], changed["zone"], changed["run"]["start_pages"]) == ("0 * * * *", "UTC", [start_url(2)])
    await miss(pool, days=1)
    assert await calendar(pool).round() is None, "it is switched off"
    assert len((await api.get("/api/admin/run-schedules")).json()["items"]) == 1
    assert (await api.delete("/api/admin/run-schedules/nightly")).status_code == 204
    assert fields(await api.get("/api/admin/run-schedules/nightly"), 404) == ["name"]


async def test_s19_what_cannot_be_scheduled_is_refused_by_name(api: httpx.AsyncClient) -> None:
    for wrong, field in (
        ({"cron": "now and then"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"site": "unknown.test", "start_pages": ["http://unknown.test/"]}, "site"),
        ({"start_pages": ["http://other.test/"]}, "start_pages.0"),
    ):
        assert fields(await api.post("/api/admin/run-schedules", json={**NIGHTLY, **wrong}), 422) == [field], wrong
