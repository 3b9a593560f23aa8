"""Items over REST: pages of JSON, or all of them as JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from limpet.kit.pg import Pool
from limpet.kit.rest import require
from limpet.parser.store.items import ItemFilter, StoredItem, list_items

PAGE: Final = 100
STREAM_PAGE: Final = 1_000
JSON_LINES: Final = "application/x-ndjson"
_BIGINT: Final = 2**63 - 1


class ItemQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # PostgreSQL has no NUL in text, so no item can match it.
    domain: str | None = Field(default=None, max_length=255, pattern=r"^[^\x00]*$")
    batch: str | None = Field(default=None, max_length=255, pattern=r"^[^\x00]*$")
    parser: str | None = Field(default=None, max_length=100, pattern=r"^[^\x00]*$")
    task_id: int | None = Field(default=None, ge=1, le=_BIGINT)
    limit: int | None = Field(default=None, ge=1, le=1_000, description="100 in JSON; JSON lines: all.")
    after: int = Field(default=0, ge=0, le=_BIGINT, description="The `next` of the page before.")
    format: Literal["json", "jsonl"] | None = None


class Item(BaseModel):
    item_id: int
    task_id: int
    attempt: int
    url: str
    domain: str
    batch: str
    parser: str
    page_type: str
    data: dict[str, Any]
    scraped_at: datetime


class ItemPage(BaseModel):
    items: list[Item]
    next: int | None = Field(description="Give it as `after` to get the next page; null at the end.")


def items_router(pool: Pool) -> APIRouter:
    router = APIRouter(tags=["items"])

    @router.get("/api/items", dependencies=[require("read")], responses={200: {"model": ItemPage}})
    async def get_items(request: Request, query: Annotated[ItemQuery, Query()]) -> Response:
        wanted = ItemFilter(domain=query.domain, batch=query.batch, parser=query.parser, task_id=query.task_id)
        accepted = request.headers.get("accept", "")
        if query.format == "jsonl" or (query.format is None and JSON_LINES in accepted):
            lines = _lines(pool, wanted=wanted, after=query.after, limit=query.limit)
            return StreamingResponse(lines, media_type=JSON_LINES)
        limit = query.limit or PAGE
        async with pool.acquire() as conn:
            found = await list_items(conn, wanted=wanted, after=query.after, limit=limit)
        following = found[-1].item_id if len(found) == limit else None
        body = orjson.dumps({"items": [_shape(item) for item in found], "next": following})
        return Response(body, media_type="application/json")

    return router


async def _lines(pool: Pool, *, wanted: ItemFilter, after: int, limit: int | None) -> AsyncIterator[bytes]:
    """Page by page, so that a slow reader holds neither a connection nor a transaction."""
    left = limit
    while left is None or left > 0:
        size = STREAM_PAGE if left is None else min(left, STREAM_PAGE)
        async with pool.acquire() as conn:
            found = await list_items(conn, wanted=wanted, after=after, limit=size)
        if found:
            yield b"".join(orjson.dumps(_shape(item), option=orjson.OPT_APPEND_NEWLINE) for item in found)
            after = found[-1].item_id
        if len(found) < size:
            return
        left = None if left is None else left - len(found)


def _shape(item: StoredItem) -> dict[str, Any]:
    return {
        "item_id": item.item_id,
        "task_id": item.task_id,
        "attempt": item.attempt,
        "url": item.url,
        "domain": item.domain,
        "batch": item.batch,
        "parser": item.parser,
        "page_type": item.page_type,
        "data": orjson.Fragment(item.data),
        "scraped_at": item.scraped_at,
    }
