"""Budgets over REST: a month's money for a domain or a provider."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query

from limpet.kit.pg import Conn, Pool
from limpet.kit.rest import Problem, require
from limpet.proxy_broker.api import answers
from limpet.proxy_broker.api.schemas import Limit, PutBudget
from limpet.proxy_broker.budget import Scope
from limpet.proxy_broker.rollup import settle_budgets
from limpet.proxy_broker.store import budgets, usage_hours

Listing = answers.Listing[answers.Budget, str]
BudgetName = Annotated[str, Path(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f/]+$")]
AfterKey = Annotated[str, Query(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]


def make_router(pool: Pool) -> APIRouter:
    router = APIRouter(prefix="/api/admin/proxy-budgets", tags=["costs"])

    @router.get("", dependencies=[require("read")])
    async def listing(limit: Limit = 100, after: AfterKey = "") -> Listing:
        scope, _, name = after.partition("/")
        async with pool.acquire() as conn:
            found = await budgets.list_after(conn, after=(scope, name), limit=limit + 1)
        items = [answers.Budget(**asdict(budget)) for budget in found[:limit]]
        return Listing(items=items, next="/".join(found[limit - 1].key) if len(found) > limit else None)

    @router.get("/{scope}/{name}", dependencies=[require("read")])
    async def get(scope: Scope, name: BudgetName) -> answers.Budget:
        async with pool.acquire() as conn:
            return await one(conn, scope, _spelt(scope, name))

    @router.put("/{scope}/{name}", dependencies=[require("admin")])
    async def put(scope: Scope, name: BudgetName, body: PutBudget) -> answers.Budget:
        """Set the month's money. What was spent this month counts at once, so a raised amount opens at once."""
        async with pool.acquire() as conn, conn.transaction():
            await usage_hours.wait_alone(conn)
            await budgets.save(conn, scope=scope, name=_spelt(scope, name), **body.model_dump())
            await settle_budgets(conn)
            return await one(conn, scope, _spelt(scope, name))

    @router.delete("/{scope}/{name}", status_code=204, dependencies=[require("admin")])
    async def remove(scope: Scope, name: BudgetName) -> None:
        """Nothing limits the spending any more."""
        async with pool.acquire() as conn:
            if not await budgets.remove(conn, scope=scope, name=_spelt(scope, name)):
                raise unknown(scope, name)

    return router


def _spelt(scope: Scope, name: str) -> str:
    return name.lower() if scope == "domain" else name


async def one(conn: Conn, scope: Scope, name: str) -> answers.Budget:
    found = await budgets.get(conn, scope=scope, name=name)
    if found is None:
        raise unknown(scope, name)
    return answers.Budget(**asdict(found))


def unknown(scope: Scope, name: str) -> Problem:
    message = f"the {scope} {name} has no budget"
    return Problem(404, "No budget", message, errors=[{"field": "name", "message": message}])
