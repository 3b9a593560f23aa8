"""Tasks over REST: submit one or many, look at them and at their history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response

from limpet.kit import tracing
from limpet.kit.openapi import problems
from limpet.kit.pg import Pool, Record
from limpet.kit.rest import field_problem, require
from limpet.scheduler.api.answers import Attempt, BulkTaken, Change, Listing, Task
from limpet.scheduler.api.bulk import BULK_BODY, Bulk
from limpet.scheduler.api.idempotent import idempotent
from limpet.scheduler.api.schemas import Moment, TaskIn
from limpet.scheduler.api.task_actions import MAX_ID, add_routes, found_task
from limpet.scheduler.api.views import task_view
from limpet.scheduler.api.webhooks import take_webhook_url
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.lifecycle import Status
from limpet.scheduler.signature import Signer
from limpet.scheduler.store.attempts import list_attempts
from limpet.scheduler.store.audit import list_audit
from limpet.scheduler.store.task_lists import TaskFilter, list_tasks
from limpet.scheduler.submit import Submitted, UnknownBatch, submit

# A batch may be full, and webhooks may be off.
CREATE: Final = {200: {"model": Task, "description": "The task that exists"}, **problems(409)}


def make_router(pool: Pool, *, submitted: Callable[[], None], signer: Signer) -> APIRouter:
    router = APIRouter(prefix="/api/admin/tasks", tags=["tasks"], route_class=idempotent(pool))

    async def take(wishes: list[dict[str, Any]], batch: str | None) -> Submitted:
        try:
            result = await submit(pool, wishes, batch=batch)
        except UnknownBatch:
            raise field_problem("batch", "no batch has this name; create it with POST /api/admin/batches") from None
        submitted()
        return result

    @router.post("", status_code=201, response_model=Task, responses=CREATE, dependencies=[require("operate")])
    async def create(body: TaskIn, response: Response) -> dict[str, Any]:
        """Submit one URL. 201 for a new task, 200 for the one that exists. A new one goes on in the request's trace."""
        take_webhook_url(signer, body.webhook_url)
        trace_id = tracing.trace_id_of(tracing.current())
        wish = {**body.model_dump(exclude={"batch"}), "trace_id": UUID(trace_id) if trace_id else None}
        result = await take([wish], body.batch)
        if result.refused:
            raise field_problem(result.refused[0].field, result.refused[0].message)
        if not result.created and not result.known:
            raise field_problem("batch", "has reached its max_pages", status=409)
        task_id = next(iter({**result.created, **result.known}.values()))
        response.status_code = 201 if result.created else 200
        return task_view(await found(task_id))

    @router.post(
        "/bulk",
        response_model=BulkTaken,
        responses=problems(409),
        dependencies=[require("operate")],
        openapi_extra=BULK_BODY,
    )
    async def bulk(body: Bulk) -> dict[str, Any]:
        """Submit up to 10,000 URLs, as one JSON body or as a stream of JSON lines (then `?batch=` names the batch).

        What is refused is named with its reason; the rest is taken.
        """
        for index, task in enumerate(body.tasks):
            take_webhook_url(signer, task.webhook_url, field=f"tasks.{index}.webhook_url")
        result = await take([task.model_dump() for task in body.tasks], body.batch)
        refused = [
            {"index": r.index, "url": r.url, "field": f"tasks.{r.index}.{r.field}", "message": r.message}
            for r in result.refused
        ]
        return {"created": len(result.created), "known": len(result.known), "refused": refused}

    @router.get("", response_model=Listing[Task, int], dependencies=[require("read")])
    async def listing(
        status: Status | None = None,
        domain: str | None = None,
        batch: str | None = None,
        group_key: str | None = None,
        created_by: str | None = None,
        updated_since: Moment | None = None,
        url_prefix: str | None = None,
        kind: Literal["page", "robots", "list", "sitemap", "probe"] = "page",
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
    ) -> dict[str, Any]:
        """By id. `url_prefix` begins with a whole host, as in `https://shop.example/p/`."""
        prefix, host = split_prefix(url_prefix)
        wanted = TaskFilter(
            kind=kind,
            status=status.value if status else None,
            domain=clean(domain) or host,
            batch=clean(batch),
            group_key=clean(group_key),
            created_by=clean(created_by),
            updated_since=updated_since,
            url_prefix=prefix,
        )
        async with pool.acquire() as conn:
            rows = await list_tasks(conn, wanted, after=after, limit=limit)
        return {"items": [task_view(row) for row in rows], "next": rows[-1]["task_id"] if len(rows) == limit else None}

    @router.get("/{task_id}", response_model=Task, dependencies=[require("read")])
    async def one(task_id: int) -> dict[str, Any]:
        return task_view(await found(task_id))

    @router.get("/{task_id}/attempts", response_model=Listing[Attempt, int], dependencies=[require("read")])
    async def attempts(task_id: int) -> dict[str, Any]:
        await found(task_id)
        async with pool.acquire() as conn:
            return {"items": [dict(row) for row in await list_attempts(conn, task_id)], "next": None}

    @router.get("/{task_id}/audit", response_model=Listing[Change, int], dependencies=[require("read")])
    async def audit(task_id: int) -> dict[str, Any]:
        """Every change of its status: when, from, to, by what event, by whom, why."""
        await found(task_id)
        async with pool.acquire() as conn:
            return {"items": [dict(row) for row in await list_audit(conn, task_id)], "next": None}

    async def found(task_id: int) -> Record:
        return await found_task(pool, task_id)

    add_routes(router, pool, acted=submitted)
    return router


def split_prefix(text: str | None) -> tuple[str | None, str | None]:
    """A prefix as URLs are spelt here, and the domain that it is in: only there it is looked for."""
    if text is None:
        return None, None
    try:
        host = canonical(text).domain
    except BadUrl as error:
        raise field_problem("url_prefix", str(error)) from None
    scheme, _, rest = text.partition("://")
    return f"{scheme.lower()}://{host}/{rest.partition('/')[2]}", host


def clean(text: str | None) -> str | None:
    """PostgreSQL knows no NUL in text; nothing is named with one."""
    return text.replace("\x00", "") if text is not None else None
