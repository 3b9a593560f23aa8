"""Domains over REST. Every change is an event, so that other services keep their own copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query

from limpet.kit.openapi import problems
from limpet.kit.pg import Pool
from limpet.kit.rest import Problem, field_problem, require
from limpet.scheduler.announce import note_change
from limpet.scheduler.api.answers import Domain, Listing
from limpet.scheduler.api.idempotent import idempotent
from limpet.scheduler.api.schemas import DomainChange, DomainIn
from limpet.scheduler.api.views import domain_view
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.politeness import spacing
from limpet.scheduler.store.domains import (
    SETTINGS,
    add_domain,
    change_domain,
    delete_domain,
    get_domain,
    has_tasks,
    list_domains,
    lock_domain,
)

# What null takes away; elsewhere null means unchanged.
CLEARABLE = ("maintenance_start", "maintenance_end")


def make_router(pool: Pool, *, changed: Callable[[], None]) -> APIRouter:
    router = APIRouter(prefix="/api/admin/domains", tags=["domains"], route_class=idempotent(pool))

    @router.post("", status_code=201, response_model=Domain, responses=problems(409), dependencies=[require("operate")])
    async def create(body: DomainIn) -> dict[str, Any]:
        """Add a domain. It may be crawled at once, at its own pace."""
        values = {
            **body.model_dump(),
            "base_url": checked_base(body.base_url or f"http://{body.name}/", body.name),
        }
        async with pool.acquire() as conn, conn.transaction():
            row = await add_domain(conn, body.name, values)
            if row is None:
                raise Problem(
                    409,
                    "Exists already",
                    f"the domain {body.name} exists",
                    errors=[{"field": "name", "message": "exists"}],
                )
            await note_change(conn, row)
        changed()
        return domain_view(row)

    @router.get("", response_model=Listing[Domain, str], dependencies=[require("read")])
    async def listing(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: Annotated[str, Query(max_length=260)] = ""
    ) -> dict[str, Any]:
        async with pool.acquire() as conn:
            rows = await list_domains(conn, after=after.replace("\x00", ""), limit=limit)
        return {"items": [domain_view(row) for row in rows], "next": rows[-1]["name"] if len(rows) == limit else None}

    @router.get("/{name}", response_model=Domain, dependencies=[require("read")])
    async def one(name: str) -> dict[str, Any]:
        async with pool.acquire() as conn:
            row = await get_domain(conn, name.replace("\x00", ""))
        if row is None:
            raise unknown(name)
        return domain_view(row)

    @router.patch("/{name}", response_model=Domain, dependencies=[require("operate")])
    async def change(name: str, body: DomainChange) -> dict[str, Any]:
        return await apply(name, body.model_dump(exclude_unset=True))

    @router.post("/{name}/activate", response_model=Domain, dependencies=[require("operate")])
    async def activate(name: str) -> dict[str, Any]:
        return await apply(name, {"is_active": True})

    @router.post("/{name}/deactivate", response_model=Domain, dependencies=[require("operate")])
    async def deactivate(name: str) -> dict[str, Any]:
        """Nothing more is sent out for this domain; what is out comes back as usual."""
        return await apply(name, {"is_active": False})

    async def apply(name: str, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("base_url") is not None:
            values["base_url"] = checked_base(values["base_url"], name)
        values = {field: value for field, value in values.items() if value is not None or field in CLEARABLE}
        async with pool.acquire() as conn, conn.transaction():
            before = await lock_domain(conn, name.replace("\x00", ""))
            if before is None:
                raise unknown(name)
            after = {field: values.get(field, before[field]) for field in SETTINGS}
            if (after["maintenance_start"] is None) != (after["maintenance_end"] is None):
                raise field_problem("maintenance_end", "maintenance_start and maintenance_end come together")
            later = spacing_of(after, before["robots_delay_seconds"]) - spacing_of(
                before, before["robots_delay_seconds"]
            )
            row = await change_domain(conn, before["name"], after, later=max(later, timedelta()))
            await note_change(conn, row)
        changed()
        return domain_view(row)

    @router.delete("/{name}", status_code=204, responses=problems(409), dependencies=[require("admin")])
    async def remove(name: str) -> None:
        """Only a domain without tasks can go: a URL is never lost by the way."""
        async with pool.acquire() as conn, conn.transaction():
            before = await lock_domain(conn, name.replace("\x00", ""))
            if before is None:
                raise unknown(name)
            if await has_tasks(conn, before["domain_id"]):
                detail = f"the domain {before['name']} has tasks; deactivate it instead"
                raise Problem(409, "Has tasks", detail, errors=[{"field": "name", "message": "has tasks"}])
            await note_change(conn, await delete_domain(conn, before["domain_id"]), deleted=True)
        changed()

    return router


def unknown(name: str) -> Problem:
    return Problem(
        404, "Not found", f"the domain {name[:260]} is not known", errors=[{"field": "name", "message": "not known"}]
    )


def spacing_of(values: Mapping[str, Any], robots_delay: float) -> timedelta:
    return spacing(values["crawl_delay_seconds"], robots_delay if values["obey_robots"] else 0.0)


def checked_base(url: str, name: str) -> str:
    try:
        found = canonical(url)
    except BadUrl as error:
        raise field_problem("base_url", str(error)) from None
    if found.domain != name:
        raise field_problem("base_url", f"is of the domain {found.domain}, not {name}")
    return found.url
