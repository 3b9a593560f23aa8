"""Batches over REST: named groups of tasks with their progress."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from limpet.kit.pg import Pool
from limpet.kit.rest import Problem, require
from limpet.scheduler.api.idempotent import idempotent
from limpet.scheduler.api.schemas import BatchIn
from limpet.scheduler.api.views import batch_view
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.store.batches import add_batch, count_batch, get_batch


def make_router(pool: Pool) -> APIRouter:
    router = APIRouter(prefix="/api/admin/batches", tags=["batches"], route_class=idempotent(pool))

    @router.post("", status_code=201, dependencies=[require("operate")])
    async def create(body: BatchIn) -> dict[str, Any]:
        """A batch may follow links (`follow`), take known URLs again (`recrawl`), and be bounded (`max_pages`)."""
        async with pool.acquire() as conn:
            row = await add_batch(
                conn, name=body.name, follow=body.follow, recrawl=body.recrawl, max_pages=body.max_pages
            )
        if row is None:
            raise Problem(
                409, "Exists already", f"the batch {body.name} exists", errors=[{"field": "name", "message": "exists"}]
            )
        return batch_view(row, {status.value: 0 for status in Status})

    @router.get("/{name}", dependencies=[require("read")])
    async def one(name: str) -> dict[str, Any]:
        async with pool.acquire() as conn:
            row = await get_batch(conn, name.replace("\x00", ""))
            if row is None:
                raise Problem(
                    404, "Not found", "no batch has this name", errors=[{"field": "name", "message": "not known"}]
                )
            return batch_view(row, await count_batch(conn, row["batch_id"]))

    return router
