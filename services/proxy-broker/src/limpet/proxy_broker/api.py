"""REST for operators: proxies and domain pools. A password goes in, never out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Query, Response

from limpet.kit.keys import Keys
from limpet.kit.pg import Conn, Pool
from limpet.kit.rest import Problem, field_problem, make_app, require
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.schemas import BIGGEST, AddProxy, AssignProxy
from limpet.proxy_broker.store import changes, pairs, proxies
from limpet.proxy_broker.store.pairs import Pair
from limpet.proxy_broker.store.proxies import NewProxy, Proxy
from limpet.proxy_broker.vault import Vault

Id = Annotated[int, Path(ge=1, le=BIGGEST)]
Domain = Annotated[str, Path(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f\s/]+$")]
Limit = Annotated[int, Query(ge=1, le=1000)]
After = Annotated[int, Query(ge=0, le=BIGGEST)]


@dataclass(frozen=True, kw_only=True)
class ProxyPage:
    """A keyset page; `next` goes into `after`."""

    items: list[Proxy]
    next: int | None


@dataclass(frozen=True, kw_only=True)
class PairPage:
    """A keyset page; `next` goes into `after`."""

    items: list[Pair]
    next: int | None


def make_api(*, keys: Keys, pool: Pool, vault: Vault, announce: Announce) -> FastAPI:
    app = make_app("Limpet proxy broker", keys)
    app.include_router(_proxies(pool, vault, announce), prefix="/api/admin/proxies", tags=["proxies"])
    app.include_router(_pools(pool), prefix="/api/admin/domain-proxies", tags=["domain pools"])
    return app


def _proxies(pool: Pool, vault: Vault, announce: Announce) -> APIRouter:
    router = APIRouter()

    @router.post("", status_code=201, dependencies=[require("admin")])
    async def add(body: AddProxy, response: Response) -> Proxy:
        new = NewProxy(**body.model_dump(exclude={"password"}))
        async with pool.acquire() as conn, conn.transaction():
            proxy_id = await proxies.add(conn, proxy=new)
            if proxy_id is None:
                raise _taken()
            if body.password is not None:
                sealed = vault.seal(body.password.get_secret_value(), proxy_id=proxy_id)
                await proxies.set_password(conn, proxy_id=proxy_id, sealed=sealed)
            await changes.add(conn, proxy_ids=[proxy_id], active=True, reason="added")
            added = await _one(conn, proxy_id)
        announce.wake()
        response.headers["Location"] = f"/api/admin/proxies/{proxy_id}"
        return added

    @router.get("", dependencies=[require("read")])
    async def list_proxies(limit: Limit = 100, after: After = 0) -> ProxyPage:
        async with pool.acquire() as conn:
            found = await proxies.list_after(conn, after=after, limit=limit + 1)
        return ProxyPage(items=found[:limit], next=found[limit - 1].proxy_id if len(found) > limit else None)

    @router.get("/{proxy_id}", dependencies=[require("read")])
    async def get(proxy_id: Id) -> Proxy:
        async with pool.acquire() as conn:
            return await _one(conn, proxy_id)

    @router.post("/{proxy_id}/enable", dependencies=[require("operate")])
    async def enable(proxy_id: Id) -> Proxy:
        return await decide(proxies.enable, proxy_id, active=True, reason="enabled")

    @router.post("/{proxy_id}/disable", dependencies=[require("operate")])
    async def disable(proxy_id: Id) -> Proxy:
        return await decide(proxies.disable, proxy_id, active=False, reason="disabled")

    @router.delete("/{proxy_id}", status_code=204, dependencies=[require("admin")])
    async def remove(proxy_id: Id) -> None:
        async with pool.acquire() as conn, conn.transaction():
            if not await proxies.remove(conn, proxy_id=proxy_id):
                raise _unknown(proxy_id)
            await changes.add(conn, proxy_ids=[proxy_id], active=False, removed=True, reason="removed")
        announce.wake()

    async def decide(change: Callable[..., Awaitable[bool]], proxy_id: int, *, active: bool, reason: str) -> Proxy:
        async with pool.acquire() as conn, conn.transaction():
            if not await change(conn, proxy_id=proxy_id):
                raise _unknown(proxy_id)
            await changes.add(conn, proxy_ids=[proxy_id], active=active, reason=reason)
            decided = await _one(conn, proxy_id)
        announce.wake()
        return decided

    return router


def _pools(pool: Pool) -> APIRouter:
    router = APIRouter()

    @router.post("/{domain}", dependencies=[require("admin")])
    async def assign(domain: Domain, body: AssignProxy) -> Pair:
        name = domain.lower()
        async with pool.acquire() as conn, conn.transaction():
            if not await pairs.assign(conn, domain=name, proxy_id=body.proxy_id, priority=body.priority):
                raise field_problem("proxy_id", "no such proxy")
            return (await pairs.list_after(conn, domain=name, after=0, limit=1, only=body.proxy_id))[0]

    @router.get("/{domain}", dependencies=[require("read")])
    async def list_pairs(domain: Domain, limit: Limit = 100, after: After = 0) -> PairPage:
        async with pool.acquire() as conn:
            found = await pairs.list_after(conn, domain=domain.lower(), after=after, limit=limit + 1)
        return PairPage(items=found[:limit], next=found[limit - 1].proxy_id if len(found) > limit else None)

    return router


async def _one(conn: Conn, proxy_id: int) -> Proxy:
    found = await proxies.list_after(conn, after=0, limit=1, only=proxy_id)
    if not found:
        raise _unknown(proxy_id)
    return found[0]


def _unknown(proxy_id: int) -> Problem:
    return Problem(404, "No such proxy", errors=[{"field": "proxy_id", "message": f"{proxy_id} is not known"}])


def _taken() -> Problem:
    message = "a proxy with this protocol, host, port and username is here already"
    return Problem(409, "Proxy exists", message, errors=[{"field": "host", "message": message}])
