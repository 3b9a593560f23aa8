"""Batches over REST: named groups of tasks with their progress, acted on as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query

from limpet.kit.openapi import problems
from limpet.kit.pg import Pool, Record
from limpet.kit.rest import Problem, require
from limpet.scheduler.act import Wish, act_on_batch
from limpet.scheduler.api.answers import Batch, BatchProgress, Changed, Listing
from limpet.scheduler.api.idempotent import idempotent
from limpet.scheduler.api.schemas import BatchIn
from limpet.scheduler.api.task_actions import MAX_ID, Operator
from limpet.scheduler.api.views import batch_view
from limpet.scheduler.api.webhooks import take_webhook_url
from limpet.scheduler.command import Command
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.signature import Signer
from limpet.scheduler.store.batch_rejections import get_rejections
from limpet.scheduler.store.batches import add_batch, count_batch, get_batch, list_batches


def make_router(pool: Pool, *, acted: Callable[[], None], signer: Signer) -> APIRouter:
    router = APIRouter(prefix="/api/admin/batches", tags=["batches"], route_class=idempotent(pool))

    @router.post(
        "", status_code=201, response_model=BatchProgress, responses=problems(409), dependencies=[require("operate")]
    )
    async def create(body: BatchIn) -> dict[str, Any]:
        """A batch may follow links (`follow`, within its `scope`), take known URLs again (`recrawl`), and be bounded."""
        take_webhook_url(signer, body.webhook_url)
        async with pool.acquire() as conn:
            # Only what was said is kept: what is not takes the defaults of the day, and there is less to read.
            scope = body.scope.model_dump_json(exclude_defaults=True)
            row = await add_batch(conn, **{**body.model_dump(), "scope": scope})
        if row is None:
            raise Problem(
                409, "Exists already", f"the batch {body.name} exists", errors=[{"field": "name", "message": "exists"}]
            )
        return batch_view(row, {status.value: 0 for status in Status})

    @router.get("", response_model=Listing[Batch, int], dependencies=[require("read")])
    async def listing(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: Annotated[int, Query(ge=0, le=MAX_ID)] = 0
    ) -> dict[str, Any]:
        """Oldest first."""
        async with pool.acquire() as conn:
            rows = await list_batches(conn, after=after, limit=limit)
        return {
            "items": [batch_view(row) for row in rows],
            "next": rows[-1]["batch_id"] if len(rows) == limit else None,
        }

    @router.get("/{name}", response_model=BatchProgress, dependencies=[require("read")])
    async def one(name: str) -> dict[str, Any]:
        """Its progress: tasks by status, how many have not ended, and when the last one did."""
        row = await found(name)
        async with pool.acquire() as conn:
            left_out = await get_rejections(conn, row["batch_id"])
            return batch_view(row, await count_batch(conn, row["batch_id"]), left_out)

    @router.post("/{name}/pause", response_model=Changed)
    async def pause(name: str, role: Operator) -> dict[str, int]:
        """Pause every task that has not ended."""
        return await do(name, Command.PAUSE, role)

    @router.post("/{name}/resume", response_model=Changed)
    async def resume(name: str, role: Operator) -> dict[str, int]:
        """Resume every task that is paused."""
        return await do(name, Command.RESUME, role)

    @router.post("/{name}/cancel", response_model=Changed)
    async def cancel(name: str, role: Operator) -> dict[str, int]:
        """Cancel every task that has not ended."""
        return await do(name, Command.CANCEL, role)

    @router.post("/{name}/restart", response_model=Changed)
    async def restart(name: str, role: Operator) -> dict[str, int]:
        """Restart every task that has ended."""
        return await do(name, Command.RESTART, role)

    async def do(name: str, command: Command, role: str) -> dict[str, int]:
        changed = await act_on_batch(pool, (await found(name))["batch_id"], Wish(command, role))
        if changed:
            acted()
        return {"changed": changed}

    async def found(name: str) -> Record:
        async with pool.acquire() as conn:
            row = await get_batch(conn, name.replace("\x00", ""))
        if row is None:
            raise Problem(
                404, "Not found", "no batch has this name", errors=[{"field": "name", "message": "not known"}]
            )
        return row

    return router
