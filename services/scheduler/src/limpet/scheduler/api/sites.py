"""Sites over REST: the configuration of every domain with the proxies that are blocked there now."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from limpet.kit.pg import Pool
from limpet.kit.rest import require
from limpet.scheduler.api.answers import Domain
from limpet.scheduler.api.views import domain_view
from limpet.scheduler.blocklists import Blocklists
from limpet.scheduler.store.domains import list_domains
from limpet.scheduler.store.run_pages import start_urls


class SiteConfig(Domain):
    """A domain with the start pages of its last run. `blocked_proxies` are ids; absent where nobody asked or nobody knows."""

    start_pages: list[str]
    blocked_proxies: list[int] = Field(default_factory=list)


class SiteConfigs(BaseModel):
    """`blocked_proxies` says whether the sites have that field: `unavailable` means that the broker did not answer."""

    items: list[SiteConfig]
    next: str | None
    blocked_proxies: Literal["included", "left_out", "unavailable"]


def make_router(pool: Pool, blocklists: Blocklists) -> APIRouter:
    router = APIRouter(prefix="/api/sites", tags=["sites"])

    @router.get(
        "/configs", response_model=SiteConfigs, response_model_exclude_unset=True, dependencies=[require("read")]
    )
    async def configs(
        include_blocked_proxies: bool = True,
        limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
        after: Annotated[str, Query(max_length=300)] = "",
    ) -> dict[str, Any]:
        """By name."""
        async with pool.acquire() as conn:
            rows = await list_domains(conn, after=after.replace("\x00", ""), limit=limit)
            starts = await start_urls(conn, [row["domain_id"] for row in rows])
        blocked = await blocklists.of([row["name"] for row in rows]) if include_blocked_proxies else None
        items = [
            {
                **domain_view(row),
                "start_pages": starts.get(row["domain_id"], []),
                **({"blocked_proxies": blocked.get(row["name"], [])} if blocked is not None else {}),
            }
            for row in rows
        ]
        told = "left_out" if not include_blocked_proxies else "unavailable" if blocked is None else "included"
        return {"items": items, "next": rows[-1]["name"] if len(rows) == limit else None, "blocked_proxies": told}

    return router
