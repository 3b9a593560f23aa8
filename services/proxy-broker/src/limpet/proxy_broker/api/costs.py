"""What proxies cost over REST: per thousand good pages, by proxy, provider or domain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Query

from limpet.kit.pg import Conn, Pool
from limpet.kit.rest import field_problem, require
from limpet.proxy_broker.api import answers
from limpet.proxy_broker.api.schemas import BIGGEST, Limit, Moment, Name
from limpet.proxy_broker.costs import cost, per_thousand, shown
from limpet.proxy_broker.store import usage_hours
from limpet.proxy_broker.store.usage_hours import By, Used


def make_router(pool: Pool) -> APIRouter:
    router = APIRouter(prefix="/api/admin/proxy-costs", tags=["costs"])

    @router.get("", dependencies=[require("read")])
    async def costs(
        by: By = "provider",
        since: Annotated[
            Moment | None, Query(description="From this hour on; else from the start of the month.")
        ] = None,
        until: Annotated[Moment | None, Query(description="Up to this moment; else up to now.")] = None,
        limit: Limit = 100,
        after: Name | None = None,
    ) -> answers.Costs:
        """Cost and good pages of a period. Hours count as a whole, at the price that they had."""
        end = until or datetime.now(UTC)
        start = _hour(since or end.replace(day=1, hour=0))
        if start >= end:
            raise field_problem("since", "must be before until")
        async with pool.acquire() as conn:
            found = await _find(conn, by, since=start, until=end, after=after, limit=limit + 1)
        items = [priced(used) for used in found[:limit]]
        following = items[-1].name if len(found) > limit else None
        return answers.Costs(by=by, since=start, until=end, items=items, next=following)

    return router


async def _find(conn: Conn, by: By, *, since: datetime, until: datetime, after: str | None, limit: int) -> list[Used]:
    if by == "proxy":
        if after is not None and not (after.isascii() and after.isdigit() and int(after) <= BIGGEST):
            raise field_problem("after", "must be the id of a proxy")
        return await usage_hours.by_proxy(conn, since=since, until=until, after=int(after or 0), limit=limit)
    find = usage_hours.by_provider if by == "provider" else usage_hours.by_domain
    return await find(conn, since=since, until=until, after=after, limit=limit)


def priced(used: Used) -> answers.Cost:
    spent = cost(price_hours=used.price_hours, price_bytes=used.price_bytes)
    idle = cost(price_hours=used.price_idle, price_bytes=Decimal(0))
    each, with_idle = (per_thousand(amount, good=used.success_count) for amount in (spent, spent + idle))
    return answers.Cost(
        name=used.name,
        good_pages=used.success_count,
        failures=used.failure_count,
        blocks=used.block_count,
        bytes=used.byte_count,
        cost=shown(spent),
        idle_cost=shown(idle),
        cost_per_thousand=shown(each) if each is not None else None,
        cost_per_thousand_with_idle=shown(with_idle) if with_idle is not None else None,
    )


def _hour(moment: datetime) -> datetime:
    return moment - timedelta(minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond)
