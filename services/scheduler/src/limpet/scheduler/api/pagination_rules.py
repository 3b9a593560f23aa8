"""How lists of domains are numbered, over REST: look at what was learned, and forget it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from limpet.kit.openapi import problems
from limpet.kit.pg import Pool
from limpet.kit.rest import Problem, require
from limpet.scheduler.api.answers import Listing, PaginationRule
from limpet.scheduler.api.task_actions import MAX_ID
from limpet.scheduler.store.pagination_rules import forget_rule, list_rules

FIELDS = tuple(PaginationRule.model_fields)


def make_router(pool: Pool) -> APIRouter:
    router = APIRouter(prefix="/api/admin/pagination-rules", tags=["pagination rules"])

    @router.get("", response_model=Listing[PaginationRule, int], dependencies=[require("read")])
    async def listing(
        domain: Annotated[str | None, Query(max_length=260)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
    ) -> dict[str, Any]:
        """Oldest first. A rule is tried on other lists of its domain when it has worked."""
        name = domain.replace("\x00", "") if domain is not None else None
        async with pool.acquire() as conn:
            rows = await list_rules(conn, domain=name, after=after, limit=limit)
        return {
            "items": [{name: row[name] for name in FIELDS} for row in rows],
            "next": rows[-1]["rule_id"] if len(rows) == limit else None,
        }

    @router.delete("/{rule_id}", status_code=204, responses=problems(404), dependencies=[require("operate")])
    async def forget(rule_id: int) -> None:
        """It is learned anew when a list shows it, and may be tried again where it never worked."""
        gone = False
        if 0 < rule_id <= MAX_ID:
            async with pool.acquire() as conn:
                gone = await forget_rule(conn, rule_id)
        if not gone:
            wrong = [{"field": "rule_id", "message": "not known"}]
            raise Problem(404, "Not found", f"no pagination rule {rule_id}", errors=wrong)

    return router
