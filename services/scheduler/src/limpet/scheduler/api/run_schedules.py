"""Scheduled runs over REST."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from limpet.kit.openapi import problems
from limpet.kit.pg import Conn, Pool, Record
from limpet.kit.rest import field_problem, require
from limpet.scheduler.api.answers import Listing
from limpet.scheduler.api.idempotent import idempotent
from limpet.scheduler.api.run_answers import Schedule, schedule_view
from limpet.scheduler.api.run_forms import ScheduleIn, ScheduleOptions
from limpet.scheduler.api.runs import check_start_pages, unknown_site
from limpet.scheduler.api.webhooks import take_webhook_url
from limpet.scheduler.runs.cron import BadCron, next_time
from limpet.scheduler.signature import Signer
from limpet.scheduler.store.domains import get_domain
from limpet.scheduler.store.run_schedules import (
    add_schedule,
    change_schedule,
    drop_schedule,
    get_schedule,
    list_schedules,
)
from limpet.scheduler.store.tasks import read_clock


def make_router(pool: Pool, *, signer: Signer) -> APIRouter:
    router = APIRouter(prefix="/api/admin/run-schedules", tags=["runs"], route_class=idempotent(pool))

    @router.post(
        "", status_code=201, response_model=Schedule, responses=problems(409), dependencies=[require("operate")]
    )
    async def create(body: ScheduleIn) -> dict[str, Any]:
        """A run at every time that `cron` names, by the clock of `zone`. Times that were missed make one run."""
        take_webhook_url(signer, body.webhook_url)
        check_start_pages(body.start_pages, site=body.site)
        async with pool.acquire() as conn, conn.transaction():
            if await get_domain(conn, body.site) is None:
                raise unknown_site(body.site)
            added = await add_schedule(conn, body.name, site=body.site, **await columns(conn, body))
        if added is None:
            raise field_problem("name", "exists", status=409)
        return schedule_view(await found(body.name))

    @router.get("", response_model=Listing[Schedule, str], dependencies=[require("read")])
    async def listing(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: Annotated[str, Query(max_length=200)] = ""
    ) -> dict[str, Any]:
        """By name."""
        async with pool.acquire() as conn:
            rows = await list_schedules(conn, after=after.replace("\x00", ""), limit=limit)
        return {
            "items": [schedule_view(row) for row in rows],
            "next": rows[-1]["name"] if len(rows) == limit else None,
        }

    @router.get("/{name}", response_model=Schedule, dependencies=[require("read")])
    async def one(name: str) -> dict[str, Any]:
        return schedule_view(await found(name))

    @router.put("/{name}", response_model=Schedule, dependencies=[require("operate")])
    async def change(name: str, body: ScheduleOptions) -> dict[str, Any]:
        """All of it anew, but for its name and site. A run that is live goes on as it was begun."""
        take_webhook_url(signer, body.webhook_url)
        before = await found(name)
        check_start_pages(body.start_pages, site=before["site"])
        async with pool.acquire() as conn, conn.transaction():
            await change_schedule(conn, before["name"], **await columns(conn, body))
        return schedule_view(await found(name))

    @router.delete("/{name}", status_code=204, response_class=Response, dependencies=[require("operate")])
    async def drop(name: str) -> None:
        """Runs that it began stay."""
        async with pool.acquire() as conn:
            dropped = await drop_schedule(conn, name.replace("\x00", ""))
        if not dropped:
            raise unknown()

    async def found(name: str) -> Record:
        async with pool.acquire() as conn:
            row = await get_schedule(conn, name.replace("\x00", ""))
        if row is None:
            raise unknown()
        return row

    return router


def unknown() -> Exception:
    return field_problem("name", "not known", status=404)


async def columns(conn: Conn, body: ScheduleOptions) -> dict[str, Any]:
    """The next time is reckoned from the database's clock."""
    now: datetime = await read_clock(conn)
    try:
        upcoming = next_time(body.cron, zone_name=body.zone, after=now)
    except BadCron as error:
        raise field_problem("cron", str(error)) from None
    wish = {"start_pages": body.start_pages, **body.options()}
    return {
        "cron": body.cron,
        "zone": body.zone,
        "is_active": body.is_active,
        "wish": json.dumps(wish),
        "next_run_at": upcoming,
    }
