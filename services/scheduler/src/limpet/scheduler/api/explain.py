"""Explain over REST: why a task or a URL stands where it stands, what wakes it, and what happens then."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from limpet.kit.openapi import problems
from limpet.kit.rest import Problem, field_problem, require
from limpet.scheduler.api.explanations import Explained
from limpet.scheduler.breaker_board import reopens_at
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.explain import BatchSays, Explain, Stranger
from limpet.scheduler.facts import MOST_AHEAD, Explanation, Facts
from limpet.scheduler.queue_reasons import estimate
from limpet.scheduler.retry import MAX_BLOCKS
from limpet.scheduler.scope import REASONS

MAX_ID = (1 << 63) - 1


def make_router(explain: Explain) -> APIRouter:
    router = APIRouter(prefix="/api/admin", tags=["explain"])

    @router.get(
        "/tasks/{task_id}/explain",
        response_model=Explained,
        response_model_exclude_unset=True,
        dependencies=[require("read")],
    )
    async def task(task_id: int) -> dict[str, Any]:
        """Why this task stands where it stands, what wakes it and when, and what happens then."""
        found = await explain.task(task_id) if 0 < task_id <= MAX_ID else None
        if found is None:
            raise Problem(404, "Not found", f"no task {task_id}", errors=[{"field": "task_id", "message": "not known"}])
        return explanation_view(*found)

    @router.get(
        "/explain",
        response_model=Explained,
        response_model_exclude_unset=True,
        responses=problems(404),
        dependencies=[require("read")],
    )
    async def url(
        url: Annotated[str, Query(min_length=1)], batch: Annotated[str | None, Query(max_length=200)] = None
    ) -> dict[str, Any]:
        """The same for a URL in any spelling. 404 says what would become of it, and whether a batch would follow a link to it."""
        try:
            target = canonical(url)
        except BadUrl as error:
            raise field_problem("url", str(error)) from None
        found = await explain.url(target, batch=batch.replace("\x00", "") if batch is not None else None)
        if isinstance(found, Stranger):
            raise unknown(found)
        return explanation_view(*found)

    return router


def explanation_view(facts: Facts, why: Explanation) -> dict[str, Any]:
    task = facts.task
    return {
        "task_id": task.task_id,
        "url": task.url,
        "status": task.status.value,
        "gate": why.gate.value,
        "sentence": why.sentence,
        # The history may be older than what is kept of it.
        "since": task.changed_at or task.updated_at,
        "wakes": why.wakes.value,
        "wakes_at": why.wakes_at,
        "next": why.then,
        "details": details(facts),
    }


def details(facts: Facts) -> dict[str, Any]:
    """All that the sentence may be made of, as data. What does not apply is null."""
    task, pace = facts.task, facts.pace
    last = {"at": task.changed_at, "event": task.event, "actor": task.actor, "reason": task.reason}
    return {
        "now": task.now,
        "attempt": task.attempt,
        "priority": task.priority,
        "scheduled_at": task.scheduled_at,
        "retries": {"count": task.fetch_errors, "most": task.max_retries},
        "blocks": {"count": task.blocks, "most": MAX_BLOCKS},
        "parse_errors": {"count": task.parse_errors, "most": task.max_retries},
        "error": task.error_message,
        "last_change": last if task.changed_at else None,
        "paused_from": task.paused_from,
        "next_crawl_at": task.next_crawl_at,
        "queue": {
            "ahead": min(facts.ahead, MOST_AHEAD),
            "more": facts.ahead > MOST_AHEAD,
            "estimated_at": estimate(facts),
        }
        if task.in_queue
        else None,
        "domain": {
            "name": pace.name,
            "is_active": pace.is_active,
            "in_flight": pace.in_flight,
            "limit_now": pace.limit_now,
            "max_concurrent_requests": pace.max_concurrent_requests,
            "delay_seconds": pace.delay,
            "next_slot_at": pace.next_slot_at,
            "held_until": pace.held_until,
            "held_reason": pace.held_reason,
        },
        "breaker": {"state": pace.breaker_state, "reopens_at": reopens_at(pace), "reason": pace.breaker_reason},
        "window": {"start": pace.maintenance_start, "end": pace.maintenance_end, "zone": pace.maintenance_zone}
        if pace.maintenance_start is not None
        else None,
        "group": {
            "key": task.group_key,
            "in_flight": task.group_in_flight,
            "limit_now": task.group_limit,
            "max_per_group": pace.max_per_group,
        }
        if task.group_key
        else None,
        "robots": {"obeyed": pace.obey_robots, "word": facts.word, **robots_view(facts)},
        "parent": {"task_id": task.parent_task_id, "url": task.parent_url, "status": task.parent_status}
        if task.parent_task_id is not None
        else None,
        "run": {"run_id": task.run_id, "start_no": task.start_no, "state": task.run_state}
        if task.run_id is not None
        else None,
        "permit": {"slot_at": task.slot_at, "start_by": facts.start_by, "lease_until": task.permit_until}
        if task.permit_until is not None
        else None,
        "parse_lease_until": task.parse_until,
        "permits_out": facts.permits_out,
        "window_of_orders": facts.window,
        "fetchers": facts.fetchers,
    }


def robots_view(facts: Facts) -> dict[str, Any]:
    """The one that matters: the unread one that all wait for, else that of its own origin."""
    known = facts.missing or facts.robots
    if known is None or not facts.pace.obey_robots:
        return {}
    return {
        "url": known.url,
        "state": known.state,
        "read_at": known.read_at,
        "note": known.note,
        "tries": known.tries,
        "next_try_at": known.next_try_at,
    }


def unknown(stranger: Stranger) -> Problem:
    """No task: each thing that would decide about it is one entry of `errors`."""
    errors = [{"field": "url", "message": "not known"}]
    if not stranger.domain_known:
        detail = f"the domain {stranger.domain} is not known either; create it with POST /api/admin/domains"
        errors.append({"field": "domain", "message": "not known"})
    else:
        then = {
            "allowed": "submitted, it would be crawled: robots.txt allows it, or is not obeyed",
            "forbidden": "submitted, it would be cancelled: robots.txt forbids it",
            "unread": "submitted, it would wait until its robots.txt has been read",
        }[stranger.robots or "unread"]
        detail = f"the domain {stranger.domain} is known; {then}"
        errors += [
            {"field": "domain", "message": "known"},
            {"field": "robots", "message": stranger.robots or "unread"},
        ]
    if stranger.batch is not None:
        said, wrong = told_of_batch(stranger.batch)
        detail += f"; {said}"
        errors.append(wrong)
    return Problem(404, "Not found", f"no task has the URL {stranger.url}; {detail}", errors=errors)


def told_of_batch(says: BatchSays) -> tuple[str, dict[str, str]]:
    """What a batch would do with a link to the URL, for people and as an entry of `errors`."""
    if not says.known:
        return f"no batch has the name {says.name}", {"field": "batch", "message": "not known"}
    if not says.follows:
        return f"the batch {says.name} follows no links", {"field": "batch", "message": "follows nothing"}
    if says.reason is not None:
        text = f"the batch {says.name} leaves it out: {REASONS[says.reason]}"
        return text, {"field": "batch", "message": says.reason}
    return f"the batch {says.name} would follow a link to it, as {says.url}", {"field": "batch", "message": "in scope"}
