"""What a person may do to a task over REST: pause, resume, cancel, restart, parse again, change its priority."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter

from limpet.kit.openapi import problems
from limpet.kit.pg import Pool, Record
from limpet.kit.rest import Problem, field_problem, require
from limpet.scheduler.act import Wish, act, prioritize, restart_failed
from limpet.scheduler.again import try_again
from limpet.scheduler.api.answers import Restarted, TaskDone
from limpet.scheduler.api.schemas import PriorityIn, RestartFailedIn, RestartIn, RestartParsingIn
from limpet.scheduler.api.views import task_view
from limpet.scheduler.command import Command
from limpet.scheduler.store.domains import get_domain
from limpet.scheduler.store.task_lists import get_task

MAX_ID = (1 << 63) - 1
# The role of a caller who may change things.
Operator = Annotated[str, require("operate")]
# What is said when it was done, and when there was nothing to do.
MESSAGES: Final = {
    Command.PAUSE: ("Task paused", "Task is paused already"),
    Command.RESUME: ("Task resumed", ""),
    Command.CANCEL: ("Task cancelled", "Task is cancelled already"),
    Command.RESTART: ("Task restarted successfully", "Task is waiting for its crawl already"),
    Command.RESTART_PARSING: ("Parsing restarted successfully", ""),
}


def add_routes(router: APIRouter, pool: Pool, *, acted: Callable[[], None]) -> None:
    async def do(task_id: int, wish: Wish) -> dict[str, Any]:
        await found_task(pool, task_id)
        done = await try_again(pool, lambda conn: act(conn, [task_id], wish))
        if why := done.refused.get(task_id):
            raise field_problem("status", why, status=409)
        if done.changed:
            acted()
        message = MESSAGES[wish.command][0 if done.changed else 1]
        return {**task_view(await found_task(pool, task_id)), "message": message}

    @router.post("/{task_id}/pause", response_model=TaskDone, responses=problems(409))
    async def pause(task_id: int, role: Operator) -> dict[str, Any]:
        """From any status that has not ended. A request that is under way is not called back; its page is kept."""
        return await do(task_id, Wish(Command.PAUSE, role))

    @router.post("/{task_id}/resume", response_model=TaskDone, responses=problems(409))
    async def resume(task_id: int, role: Operator) -> dict[str, Any]:
        """Goes on from where it was paused: a page that is there is not fetched again."""
        return await do(task_id, Wish(Command.RESUME, role))

    @router.post("/{task_id}/cancel", response_model=TaskDone, responses=problems(409))
    async def cancel(task_id: int, role: Operator) -> dict[str, Any]:
        """Given up, and not crawled again by itself. From any status that has not ended."""
        return await do(task_id, Wish(Command.CANCEL, role))

    @router.post("/{task_id}/restart", response_model=TaskDone, responses=problems(409))
    async def restart(task_id: int, role: Operator, body: RestartIn | None = None) -> dict[str, Any]:
        """Another crawl of a task that has ended."""
        return await do(task_id, Wish(Command.RESTART, role, **(body or RestartIn()).model_dump()))

    @router.post("/{task_id}/restart-parsing", response_model=TaskDone, responses=problems(409))
    async def restart_parsing(task_id: int, role: Operator, body: RestartParsingIn | None = None) -> dict[str, Any]:
        """The stored page is parsed again; nothing is fetched."""
        return await do(task_id, Wish(Command.RESTART_PARSING, role, **(body or RestartParsingIn()).model_dump()))

    @router.post("/restart-failed", response_model=Restarted)
    async def restart_all_failed(role: Operator, body: RestartFailedIn | None = None) -> dict[str, Any]:
        """Failed tasks, of a domain or since a time, the oldest first."""
        body = body or RestartFailedIn()
        if body.domain is not None:
            async with pool.acquire() as conn:
                if await get_domain(conn, body.domain) is None:
                    raise field_problem("domain", "not known")
        task_ids = await restart_failed(
            pool, domain=body.domain, failed_after=body.failed_after, limit=body.limit, actor=role
        )
        if task_ids:
            acted()
        return {"restarted": len(task_ids), "task_ids": task_ids}

    @router.patch("/{task_id}/priority", response_model=TaskDone, responses=problems(409))
    async def priority(task_id: int, role: Operator, body: PriorityIn) -> dict[str, Any]:
        """1 is the most urgent. An order that is out goes on as it is."""
        await found_task(pool, task_id)
        why = await try_again(pool, lambda conn: prioritize(conn, task_id, body.priority))
        if why:
            raise field_problem("status", why, status=409)
        acted()
        return {**task_view(await found_task(pool, task_id)), "message": f"Priority is {body.priority}"}


async def found_task(pool: Pool, task_id: int) -> Record:
    row = None
    if 0 < task_id <= MAX_ID:
        async with pool.acquire() as conn:
            row = await get_task(conn, task_id)
    if row is None:
        raise Problem(404, "Not found", f"no task {task_id}", errors=[{"field": "task_id", "message": "not known"}])
    return row
