"""`GET /api/items`: what any parser found, a page at a time or all of it as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Query, Request, Response

from limpet.kit.pg import Pool
from limpet.kit.rest import require
from limpet.parser import freshness
from limpet.parser.api.answers import FRESHNESS, Item, Listing
from limpet.parser.api.formats import Row, media_types, wanted_format
from limpet.parser.api.queries import PAGE, ItemQuery
from limpet.parser.api.streams import STREAM_PAGE, Piece, streamed
from limpet.parser.store.items import ItemFilter, StoredItem, list_items

COLUMNS: Final[Mapping[str, type]] = {
    "item_id": int, "task_id": int, "attempt": int, "url": str, "domain": str, "batch": str, "parser": str,
    "parser_version": str, "page_type": str, "data": dict, "scraped_at": datetime,
}  # fmt: skip


def items_router(pool: Pool) -> APIRouter:
    router = APIRouter(tags=["items"])
    answers: dict[int | str, dict[str, Any]] = {
        200: {
            "model": Listing[Item],
            "headers": FRESHNESS,
            **media_types("Items, in the order they were first stored."),
        }
    }

    @router.get("/api/items", dependencies=[require("read")], responses=answers)
    async def get_items(request: Request, query: Annotated[ItemQuery, Query()]) -> Response:
        wanted = ItemFilter(domain=query.domain, batch=query.batch, parser=query.parser, task_id=query.task_id)
        form = wanted_format(request, query.format)
        if form != "json":
            pieces = _pieces(pool, wanted=wanted, after=query.after, limit=query.limit)
            return await streamed(pieces, form=form, columns=COLUMNS, shape=_shape, name="items")
        limit = query.limit or PAGE
        async with pool.acquire() as conn:
            found = await list_items(conn, wanted=wanted, after=query.after, limit=limit)
        now, times = datetime.now(UTC), [item.scraped_at for item in found]
        body = {
            "items": [_shape(item._asdict()) for item in found],
            "next": found[-1].item_id if len(found) == limit else None,
            "_metadata": freshness.of_many(times, now=now),
        }
        return Response(orjson.dumps(body), media_type="application/json", headers=freshness.headers(times, now=now))

    return router


async def _pieces(pool: Pool, *, wanted: ItemFilter, after: int, limit: int | None) -> AsyncIterator[Piece]:
    """Page by page, so that a slow reader holds neither a connection nor a transaction."""
    left = limit
    while left is None or left > 0:
        size = STREAM_PAGE if left is None else min(left, STREAM_PAGE)
        async with pool.acquire() as conn:
            found: Sequence[StoredItem] = await list_items(conn, wanted=wanted, after=after, limit=size)
        yield [item._asdict() for item in found]
        if len(found) < size:
            return
        after = found[-1].item_id
        left = None if left is None else left - len(found)


def _shape(row: Row) -> dict[str, Any]:
    about = freshness.metadata(row["scraped_at"], task_id=row["task_id"], attempt=row["attempt"], now=datetime.now(UTC))
    return {**row, "data": orjson.Fragment(row["data"]), "_metadata": about}
