"""Domain pools over REST: which proxies a domain has, how each does there, and how many it needs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated

from fastapi import APIRouter, Query

from limpet.kit.pg import Conn, Pool
from limpet.kit.rest import Problem, field_problem, require
from limpet.proxy_broker.api import answers
from limpet.proxy_broker.api.schemas import After, AssignMany, AssignProxy, ChangePair, Domain, Id, Limit
from limpet.proxy_broker.sizing import advise, size
from limpet.proxy_broker.store import domains, pairs, usage_hours

Listing = answers.Listing[answers.Pair, int]
BlockedListing = answers.Listing[answers.Blocked, int]


def make_router(pool: Pool) -> APIRouter:
    router = APIRouter(prefix="/api/admin/domain-proxies", tags=["domain pools"])

    @router.get("/{domain}", dependencies=[require("read")])
    async def listing(
        domain: Domain,
        limit: Limit = 100,
        after: After = 0,
        assigned: Annotated[bool | None, Query(description="Only the pool itself, or only what was used.")] = None,
    ) -> Listing:
        """The pool, and other proxies that were used for the domain, with how each does there."""
        async with pool.acquire() as conn:
            name = domain.lower()
            found = await pairs.list_after(conn, domain=name, after=after, limit=limit + 1, assigned=assigned)
        items = [answers.Pair(**asdict(pair)) for pair in found[:limit]]
        return Listing(items=items, next=items[-1].proxy_id if len(found) > limit else None)

    @router.post("/{domain}", dependencies=[require("admin")])
    async def assign(domain: Domain, body: AssignProxy) -> answers.Pair:
        """Put a proxy into the pool. What is known of it there stays."""
        name = domain.lower()
        async with pool.acquire() as conn, conn.transaction():
            if not await pairs.assign(conn, domain=name, proxy_id=body.proxy_id, priority=body.priority):
                raise field_problem("proxy_id", "no such proxy")
            return await one(conn, name, body.proxy_id)

    @router.post("/{domain}/bulk", dependencies=[require("admin")])
    async def assign_many(domain: Domain, body: AssignMany) -> answers.Assigned:
        """Put many proxies into the pool. Ids that there are not come back; the others are in."""
        wanted = sorted(set(body.proxy_ids))
        async with pool.acquire() as conn, conn.transaction():
            found = await pairs.assign_many(
                conn, domain=domain.lower(), proxy_ids=wanted, priorities=[body.priority] * len(wanted)
            )
        return answers.Assigned(assigned=len(found), unknown=[proxy_id for proxy_id in wanted if proxy_id not in found])

    @router.get("/{domain}/sizing", dependencies=[require("read")])
    async def sizing(
        domain: Domain,
        hours: Annotated[int, Query(ge=1, le=720, description="How far back to look for the busiest hour.")] = 24,
        rate_per_hour: Annotated[
            Decimal | None, Query(ge=0, le=10**9, description="Plan for this rate instead of the measured one.")
        ] = None,
        max_requests_per_proxy: Annotated[
            Decimal | None, Query(ge=Decimal("0.001"), le=10**9, description="Plan for this hourly limit of a proxy.")
        ] = None,
    ) -> answers.Sizing:
        """How many proxies the domain needs for its busiest hour, with a fifth more, and how many it has."""
        name = domain.lower()
        async with pool.acquire() as conn:
            supply = await domains.supply(conn, domain=name)
            measured = await usage_hours.busiest(conn, domain=name, within=timedelta(hours=hours))
        rate = Decimal(measured) if rate_per_hour is None else rate_per_hour
        limit = supply.max_requests_per_hour if max_requests_per_proxy is None else max_requests_per_proxy
        found = size(rate_per_hour=Fraction(rate), per_proxy=Fraction(limit) if limit is not None else None)
        return answers.Sizing(
            domain=name,
            rate_per_hour=rate,
            max_requests_per_proxy=limit,
            needed=found.needed,
            recommended=found.recommended,
            have=supply.active,
            members=supply.members,
            advice=advise(found, have=supply.active),
        )

    @router.get("/{domain}/blocked", dependencies=[require("read")])
    async def blocked(domain: Domain, limit: Limit = 100, after: After = 0) -> BlockedListing:
        """The domain's blocklist: datacenter proxies that the site refused, until their time is over."""
        async with pool.acquire() as conn:
            found = await pairs.list_blocked(conn, domain=domain.lower(), after=after, limit=limit + 1)
        items = [answers.Blocked(**asdict(entry)) for entry in found[:limit]]
        return BlockedListing(items=items, next=items[-1].proxy_id if len(found) > limit else None)

    @router.patch("/{domain}/{proxy_id}", dependencies=[require("operate")])
    async def change(domain: Domain, proxy_id: Id, body: ChangePair) -> answers.Pair:
        """Enable or disable the proxy for this domain alone, or give it another priority."""
        name = domain.lower()
        async with pool.acquire() as conn, conn.transaction():
            decided = await pairs.decide(
                conn,
                domain=name,
                proxy_id=proxy_id,
                operator_disabled=body.operator_disabled,
                priority=body.priority,
            )
            if not decided:
                raise unknown(name, proxy_id)
            return await one(conn, name, proxy_id)

    @router.delete("/{domain}/{proxy_id}", status_code=204, dependencies=[require("admin")])
    async def remove(domain: Domain, proxy_id: Id) -> None:
        """Take it out of the pool. How it did there is remembered."""
        async with pool.acquire() as conn:
            if not await pairs.unassign(conn, domain=domain.lower(), proxy_id=proxy_id):
                raise unknown(domain.lower(), proxy_id)

    return router


async def one(conn: Conn, domain: str, proxy_id: int) -> answers.Pair:
    found = await pairs.list_after(conn, domain=domain, after=0, limit=1, only=proxy_id)
    return answers.Pair(**asdict(found[0]))


def unknown(domain: str, proxy_id: int) -> Problem:
    message = f"{proxy_id} is not in the pool of {domain}"
    return Problem(404, "Not in the pool", message, errors=[{"field": "proxy_id", "message": message}])
