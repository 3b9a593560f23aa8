"""Tasks over REST: submit one or many, look at them and at their history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from limpet.kit import tracing
from limpet.kit.pg import Pool, Record
from limpet.kit.rest import Problem, field_problem, require
from limpet.scheduler.api.idempotent import idempotent
from limpet.scheduler.api.schemas import BulkIn, TaskIn
from limpet.scheduler.api.views import task_view
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.store.attempts import list_attempts
from limpet.scheduler.store.tasks import get_task, list_tasks
from limpet.scheduler.submit import Submitted, UnknownBatch, submit

MAX_ID = (1 << 63) - 1


def make_router(pool: Pool, *, submitted: Callable[[], None]) -> APIRouter:
    router = APIRouter(prefix="/api/admin/tasks", tags=["tasks"], route_class=idempotent(pool))

    async def take(wishes: list[dict[str, Any]], batch: str | None) -> Submitted:
        try:
            result = await submit(pool, wishes, batch=batch)
        except UnknownBatch:
            raise field_problem("batch", "no batch has this name; create it with POST /api/admin/batches") from None
        submitted()
        return result

    @router.post("", status_code=201, dependencies=[require("operate")])
    async def create(body: TaskIn, response: Response) -> dict[str, Any]:
        """Submit one URL. 201 for a new task, 200 for the one that exists. A new one goes on in the request's trace."""
        trace_id = tracing.trace_id_of(tracing.current())
        wish = {**body.model_dump(exclude={"batch"}), "trace_id": UUID(trace_id) if trace_id else None}
        result = await take([wish], body.batch)
        if result.refused:
            raise field_problem("url", result.refused[0].message)
        if not result.created and not result.known:
            raise field_problem("batch", "has reached its max_pages", status=409)
        task_id = next(iter({**result.created, **result.known}.values()))
        response.status_code = 201 if result.created else 200
        return task_view(await found(task_id))

    @router.post("/bulk", dependencies=[require("operate")])
    async def bulk(body: BulkIn) -> dict[str, Any]:
        """Submit up to 10,000 URLs. What is refused is named with its reason; the rest is taken."""
        result = await take([task.model_dump() for task in body.tasks], body.batch)
        refused = [
            {"index": r.index, "url": r.url, "field": f"tasks.{r.index}.{r.field}", "message": r.message}
            for r in result.refused
        ]
        return {"created": len(result.created), "known": len(result.known), "refused": refused}

    @router.get("", dependencies=[require("read")])
    async def listing(
        status: Status | None = None,
        domain: str | None = None,
        batch: str | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
    ) -> dict[str, Any]:
        async with pool.acquire() as conn:
            rows = await list_tasks(
                conn,
                after=after,
                limit=limit,
                status=status.value if status else None,
                domain=clean(domain),
                batch=clean(batch),
            )
        return {"items": [task_view(row) for row in rows], "next": rows[-1]["task_id"] if len(rows) == limit else None}

    @router.get("/{task_id}", dependencies=[require("read")])
    async def one(task_id: int) -> dict[str, Any]:
        return task_view(await found(task_id))

    @router.get("/{task_id}/attempts", dependencies=[require("read")])
    async def attempts(task_id: int) -> dict[str, Any]:
        await found(task_id)
        async with pool.acquire() as conn:
            return {"items": [dict(row) for row in await list_attempts(conn, task_id)], "next": None}

    async def found(task_id: int) -> Record:
        row = None
        if 0 < task_id <= MAX_ID:
            async with pool.acquire() as conn:
                row = await get_task(conn, task_id)
        if row is None:
            raise Problem(404, "Not found", f"no task {task_id}", errors=[{"field": "task_id", "message": "not known"}])
        return row

    return router


def clean(text: str | None) -> str | None:
    """PostgreSQL knows no NUL in text; nothing is named with one."""
    return text.replace("\x00", "") if text is not None else None
