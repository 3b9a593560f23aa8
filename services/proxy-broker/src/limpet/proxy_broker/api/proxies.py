"""Proxies over REST: list, add, get, change, remove, enable, disable. Every change is announced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import Annotated

import asyncpg
from fastapi import APIRouter, Query, Response

from limpet.kit.openapi import problems
from limpet.kit.pg import Conn, Pool
from limpet.kit.rest import Problem, require
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.api import answers
from limpet.proxy_broker.api.schemas import AddProxy, After, ChangeProxy, Country, Id, Limit, Name, Protocol
from limpet.proxy_broker.policy import Kind
from limpet.proxy_broker.store import changes, proxies, usage_hours
from limpet.proxy_broker.store.proxies import Filters, NewProxy
from limpet.proxy_broker.vault import Vault

PATH = "/api/admin/proxies"
# More pairs than any proxy has.
ALL_PAIRS = 1_000_000
Listing = answers.Listing[answers.Proxy, int]


def make_router(pool: Pool, vault: Vault, announce: Announce) -> APIRouter:
    router = APIRouter(prefix=PATH, tags=["proxies"])

    @router.post("", status_code=201, responses=problems(409), dependencies=[require("admin")])
    async def add(body: AddProxy, response: Response) -> answers.Proxy:
        """Add a proxy. One with the same protocol, host, port and username must not be there."""
        async with pool.acquire() as conn, conn.transaction():
            proxy_id = await proxies.add(conn, proxy=NewProxy(**body.model_dump(exclude={"password"})))
            if proxy_id is None:
                raise taken()
            if body.password is not None:
                sealed = vault.seal(body.password.get_secret_value(), proxy_id=proxy_id)
                await proxies.set_password(conn, proxy_id=proxy_id, sealed=sealed)
            await changes.add(conn, proxy_ids=[proxy_id], active=True, reason="added")
            added = await one(conn, proxy_id)
        announce.wake()
        response.headers["Location"] = f"{PATH}/{proxy_id}"
        return added

    @router.get("", dependencies=[require("read")])
    async def listing(
        limit: Limit = 100,
        after: After = 0,
        provider: Name | None = None,
        country_code: Country | None = None,
        kind: Kind | None = None,
        protocol: Protocol | None = None,
        active: bool | None = None,
        domain: Annotated[Name | None, Query(description="Only proxies of this domain's pool.")] = None,
    ) -> Listing:
        filters = Filters(
            provider=provider,
            country_code=country_code,
            kind=kind,
            protocol=protocol,
            active=active,
            domain=domain.lower() if domain is not None else None,
        )
        async with pool.acquire() as conn:
            found = await proxies.list_after(conn, after=after, limit=limit + 1, filters=filters)
        items = [answers.Proxy(**asdict(proxy)) for proxy in found[:limit]]
        return Listing(items=items, next=items[-1].proxy_id if len(found) > limit else None)

    @router.get("/{proxy_id}", dependencies=[require("read")])
    async def get(proxy_id: Id) -> answers.Proxy:
        async with pool.acquire() as conn:
            return await one(conn, proxy_id)

    @router.patch("/{proxy_id}", responses=problems(409), dependencies=[require("admin")])
    async def change(proxy_id: Id, body: ChangeProxy) -> answers.Proxy:
        """Change what is named. Open leases run on with what they were given."""
        named = body.model_dump(exclude_unset=True, exclude={"password"})
        try:
            async with pool.acquire() as conn, conn.transaction():
                before = await proxies.lock(conn, proxy_id=proxy_id)
                if before is None:
                    raise unknown(proxy_id)
                if named:
                    await proxies.change(conn, proxy_id=proxy_id, proxy=replace(before, **named))
                if "password" in body.model_fields_set:
                    secret = body.password.get_secret_value() if body.password is not None else None
                    sealed = vault.seal(secret, proxy_id=proxy_id) if secret is not None else None
                    await proxies.set_password(conn, proxy_id=proxy_id, sealed=sealed)
                changed = await one(conn, proxy_id)
                if body.model_fields_set:
                    await changes.add(conn, proxy_ids=[proxy_id], active=changed.active, reason="changed")
        except asyncpg.UniqueViolationError:
            raise taken() from None
        announce.wake()
        return changed

    @router.delete("/{proxy_id}", status_code=204, dependencies=[require("admin")])
    async def remove(proxy_id: Id) -> None:
        """Remove it for good, with its leases and pairs. What it has cost stays known."""
        async with pool.acquire() as conn, conn.transaction():
            await usage_hours.wait_alone(conn)
            if await proxies.lock(conn, proxy_id=proxy_id) is None:
                raise unknown(proxy_id)
            await usage_hours.roll_up(conn, limit=ALL_PAIRS, proxy_id=proxy_id)
            await proxies.remove(conn, proxy_id=proxy_id)
            await changes.add(conn, proxy_ids=[proxy_id], active=False, removed=True, reason="removed")
        announce.wake()

    @router.post("/{proxy_id}/enable", dependencies=[require("operate")])
    async def enable(proxy_id: Id) -> answers.Proxy:
        """Trust it again: its cool-down ends as well."""
        return await decide(proxies.enable, proxy_id, active=True, reason="enabled")

    @router.post("/{proxy_id}/disable", dependencies=[require("operate")])
    async def disable(proxy_id: Id) -> answers.Proxy:
        """No new leases until somebody enables it. Open ones run on."""
        return await decide(proxies.disable, proxy_id, active=False, reason="disabled")

    async def decide(
        change: Callable[..., Awaitable[bool]], proxy_id: int, *, active: bool, reason: str
    ) -> answers.Proxy:
        async with pool.acquire() as conn, conn.transaction():
            if not await change(conn, proxy_id=proxy_id):
                raise unknown(proxy_id)
            await changes.add(conn, proxy_ids=[proxy_id], active=active, reason=reason)
            decided = await one(conn, proxy_id)
        announce.wake()
        return decided

    return router


async def one(conn: Conn, proxy_id: int) -> answers.Proxy:
    found = await proxies.list_after(conn, after=0, limit=1, only=proxy_id)
    if not found:
        raise unknown(proxy_id)
    return answers.Proxy(**asdict(found[0]))


def unknown(proxy_id: int) -> Problem:
    return Problem(404, "No such proxy", errors=[{"field": "proxy_id", "message": f"{proxy_id} is not known"}])


def taken() -> Problem:
    message = "a proxy with this protocol, host, port and username is here already"
    return Problem(409, "Proxy exists", message, errors=[{"field": "host", "message": message}])
