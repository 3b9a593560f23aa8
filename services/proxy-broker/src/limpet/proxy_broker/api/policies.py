"""Proxy policies of domains over REST: strategy, filters, tiers and thresholds."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from limpet.kit.pg import Pool
from limpet.kit.rest import Problem, require
from limpet.proxy_broker.api import answers
from limpet.proxy_broker.api.schemas import Domain, PutPolicy
from limpet.proxy_broker.policy import Policy
from limpet.proxy_broker.store import policies


def make_router(pool: Pool) -> APIRouter:
    router = APIRouter(prefix="/api/admin/domain-proxies/{domain}/policy", tags=["domain pools"])

    @router.get("", dependencies=[require("read")])
    async def get(domain: Domain) -> answers.Policy:
        """What was decided about the domain's proxies, or the defaults."""
        name = domain.lower()
        async with pool.acquire() as conn:
            found = await policies.find(conn, domains=[name])
        return shown(found.get(name, Policy(domain=name)), stored=name in found)

    @router.put("", dependencies=[require("admin")])
    async def put(domain: Domain, body: PutPolicy) -> answers.Policy:
        """Decide all of it anew: what is not named is the default."""
        lists = {"providers": tuple(body.providers), "kinds": tuple(body.kinds), "tiers": tuple(body.tiers)}
        policy = Policy(**{**body.model_dump(), **lists}, domain=domain.lower())
        async with pool.acquire() as conn:
            await policies.save(conn, policy)
        return shown(policy, stored=True)

    @router.delete("", status_code=204, dependencies=[require("admin")])
    async def remove(domain: Domain) -> None:
        """Back to the defaults."""
        async with pool.acquire() as conn:
            if not await policies.remove(conn, domain=domain.lower()):
                message = f"{domain.lower()} has no policy of its own"
                raise Problem(404, "No policy", message, errors=[{"field": "domain", "message": message}])

    return router


def shown(policy: Policy, *, stored: bool) -> answers.Policy:
    return answers.Policy(**asdict(policy), stored=stored)
