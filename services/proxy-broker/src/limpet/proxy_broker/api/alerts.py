"""Alerts over REST, with the names that metrics must not carry."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from limpet.kit.rest import require
from limpet.proxy_broker.alerts import Alerts
from limpet.proxy_broker.api import answers
from limpet.proxy_broker.api.schemas import Limit

Listing = answers.Listing[answers.Alert, str]
AfterKey = Annotated[str, Query(max_length=600, pattern=r"^[^\x00-\x1f\x7f]*$")]


def make_router(watch: Alerts) -> APIRouter:
    router = APIRouter(prefix="/api/admin/proxy-alerts", tags=["alerts"])

    @router.get("", dependencies=[require("read")])
    async def listing(limit: Limit = 100, after: AfterKey = "") -> Listing:
        """Domains with too few proxies or too many failures, and budgets that run out, as they are now."""
        key = tuple(after.split("/", 2))
        found = [alert for alert in await watch.find() if alert.key > key]
        items = [answers.Alert(**asdict(alert)) for alert in found[:limit]]
        return Listing(items=items, next="/".join(found[limit - 1].key) if len(found) > limit else None)

    return router
