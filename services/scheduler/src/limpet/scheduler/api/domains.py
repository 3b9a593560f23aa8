"""Domains over REST. Every change is an event, so that other services keep their own copy."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from limpet.contracts.events.v1.domain_pb2 import DomainChanged
from limpet.kit.bus import Bus
from limpet.kit.clock import to_stamp
from limpet.kit.pg import Pool, Record
from limpet.kit.rest import Problem, field_problem, require
from limpet.scheduler.api.idempotent import idempotent
from limpet.scheduler.api.schemas import DomainChange, DomainIn
from limpet.scheduler.api.views import domain_view
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.dispatch import POLICIES
from limpet.scheduler.politeness import slot_tolerance
from limpet.scheduler.store.domains import add_domain, change_domain, get_domain, list_domains


def make_router(pool: Pool, bus: Bus) -> APIRouter:
    router = APIRouter(prefix="/api/admin/domains", tags=["domains"], route_class=idempotent(pool))

    async def announce(row: Record) -> None:
        event = DomainChanged(
            name=row["name"],
            base_url=row["base_url"],
            parser=row["parser_name"],
            crawl_delay_seconds=row["crawl_delay_seconds"],
            max_concurrent_requests=row["max_concurrent_requests"],
            active=row["is_active"],
            user_agent=row["user_agent"],
            proxy_policy=POLICIES[row["proxy_policy"]],
            changed_time=to_stamp(row["updated_at"]),
        )
        await bus.publish(
            event, key=f"domain:{row['domain_id']}:{row['updated_at'].timestamp()}", suffix=str(row["domain_id"])
        )

    @router.post("", status_code=201, dependencies=[require("operate")])
    async def create(body: DomainIn) -> dict[str, Any]:
        """Add a domain. It may be crawled at once, at its own pace."""
        base = checked_base(body.base_url or f"http://{body.name}/", body.name)
        values = {
            **body.model_dump(),
            "base_url": base,
            "slot_tolerance_seconds": slot_tolerance(body.crawl_delay_seconds),
        }
        async with pool.acquire() as conn:
            row = await add_domain(conn, values)
        if row is None:
            raise Problem(
                409, "Exists already", f"the domain {body.name} exists", errors=[{"field": "name", "message": "exists"}]
            )
        await announce(row)
        return domain_view(row)

    @router.get("", dependencies=[require("read")])
    async def listing(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: Annotated[str, Query(max_length=260)] = ""
    ) -> dict[str, Any]:
        async with pool.acquire() as conn:
            rows = await list_domains(conn, after=after.replace("\x00", ""), limit=limit)
        return {"items": [domain_view(row) for row in rows], "next": rows[-1]["name"] if len(rows) == limit else None}

    @router.get("/{name}", dependencies=[require("read")])
    async def one(name: str) -> dict[str, Any]:
        async with pool.acquire() as conn:
            row = await get_domain(conn, name.replace("\x00", ""))
        if row is None:
            raise unknown(name)
        return domain_view(row)

    @router.patch("/{name}", dependencies=[require("operate")])
    async def change(name: str, body: DomainChange) -> dict[str, Any]:
        values = body.model_dump(exclude_none=True)
        if body.base_url is not None:
            values["base_url"] = checked_base(body.base_url, name)
        if body.crawl_delay_seconds is not None:
            values["slot_tolerance_seconds"] = slot_tolerance(body.crawl_delay_seconds)
        async with pool.acquire() as conn:
            row = await change_domain(conn, name.replace("\x00", ""), values)
        if row is None:
            raise unknown(name)
        await announce(row)
        return domain_view(row)

    return router


def unknown(name: str) -> Problem:
    return Problem(
        404, "Not found", f"the domain {name[:260]} is not known", errors=[{"field": "name", "message": "not known"}]
    )


def checked_base(url: str, name: str) -> str:
    try:
        found = canonical(url)
    except BadUrl as error:
        raise field_problem("base_url", str(error)) from None
    if found.domain != name:
        raise field_problem("base_url", f"is of the domain {found.domain}, not {name}")
    return found.url
