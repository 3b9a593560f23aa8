"""Webhooks over REST: the secret of an endpoint, and what became of deliveries."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

from fastapi import APIRouter, Query

from limpet.kit.openapi import problems
from limpet.kit.pg import Pool, Record
from limpet.kit.rest import field_problem, require
from limpet.scheduler.api.answers import Listing
from limpet.scheduler.api.sendings import Delivery, Secret
from limpet.scheduler.canonical import BadUrl, canonical
from limpet.scheduler.signature import Signer, endpoint_of
from limpet.scheduler.store.webhooks import get_delivery, list_deliveries, retry_delivery

MAX_LENGTH = 2048
_PRINTABLE = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
FIELDS = (
    "delivery_id", "url", "endpoint", "event", "state", "tries", "next_try_at", "last_status", "last_error", "created_at",
    "delivered_at",
)  # fmt: skip


def make_router(pool: Pool, signer: Signer) -> APIRouter:
    router = APIRouter(prefix="/api/admin/webhooks", tags=["webhooks"])

    @router.get("/secret", response_model=Secret, responses=problems(409), dependencies=[require("admin")])
    async def secret(url: str) -> dict[str, str]:
        """What a receiver checks signatures with. One secret for each scheme, host and port."""
        endpoint = endpoint_of(checked_webhook_url(url, field="url"))
        need_webhooks(signer, field="url")
        return {"endpoint": endpoint, "secret": signer.secret_of(endpoint)}

    @router.get("/deliveries", response_model=Listing[Delivery, UUID], dependencies=[require("read")])
    async def listing(
        state: Literal["pending", "delivered", "dead"] | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        after: UUID = UUID(int=0),
    ) -> dict[str, Any]:
        """Oldest first."""
        async with pool.acquire() as conn:
            rows = await list_deliveries(conn, after=after, state=state, limit=limit)
        return {
            "items": [delivery_view(row) for row in rows],
            "next": rows[-1]["delivery_id"] if len(rows) == limit else None,
        }

    @router.post(
        "/deliveries/{delivery_id}/retry",
        response_model=Delivery,
        responses=problems(409),
        dependencies=[require("operate")],
    )
    async def retry(delivery_id: UUID) -> dict[str, Any]:
        """Due at once, with all its tries again: for a dead one, and for one that waits for its next try."""
        async with pool.acquire() as conn:
            row = await retry_delivery(conn, delivery_id)
            if row is not None:
                return delivery_view(row)
            known = await get_delivery(conn, delivery_id)
        if known is None:
            raise field_problem("delivery_id", "not known", status=404)
        why = "was delivered already" if known["state"] == "delivered" else "is being sent just now"
        raise field_problem("delivery_id", why, status=409)

    return router


def delivery_view(row: Record) -> dict[str, Any]:
    return {name: row[name] for name in FIELDS}


def checked_webhook_url(text: str, *, field: str = "webhook_url") -> str:
    """A URL that webhooks may be sent to. Where it leads is looked at when one is sent."""
    if len(text) > MAX_LENGTH:
        raise field_problem(field, f"is longer than {MAX_LENGTH} characters")
    if not _PRINTABLE.fullmatch(text):
        raise field_problem(field, "must be a URL of printable ASCII characters, the others percent-encoded")
    try:
        canonical(text)
    except BadUrl as error:
        raise field_problem(field, str(error)) from None
    if "@" in urlsplit(text).netloc:
        raise field_problem(field, "must not have a user name or password in it")
    return text


def need_webhooks(signer: Signer, *, field: str = "webhook_url") -> None:
    """To be asked before a webhook is taken: one that cannot be signed would never be sent."""
    if not signer.enabled:
        raise field_problem(field, "webhooks are off here: LIMPET_WEBHOOK_SECRET is not set", status=409)


def take_webhook_url(signer: Signer, text: str | None, *, field: str = "webhook_url") -> None:
    """Refuse a webhook that could not be sent."""
    if text is not None:
        checked_webhook_url(text, field=field)
        need_webhooks(signer, field=field)
