"""`GET /api/products`: searched, one of them, and what it was before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from limpet.kit.openapi import problems
from limpet.kit.pg import Conn, Pool
from limpet.kit.rest import Problem, require
from limpet.parser import freshness
from limpet.parser.api.answers import FRESHNESS, Listing, Product, Version
from limpet.parser.api.formats import Row, media_types, wanted_format
from limpet.parser.api.queries import BIGINT, PAGE, ProductQuery
from limpet.parser.api.streams import STREAM_PAGE, Piece, streamed
from limpet.parser.store.catalogue import (
    ProductFilter,
    StoredProduct,
    StoredVersion,
    find_products,
    list_versions,
    read_product,
)

COLUMNS: Final[Mapping[str, type]] = {
    "product_id": int, "task_id": int, "attempt": int, "version": int, "domain": str, "batch": str, "url": str,
    "page_url": str, "listed": bool, "name": str, "brand": str, "sku": str, "gtin": str, "mpn": str, "price": Decimal,
    "price_high": Decimal, "list_price": Decimal, "currency": str, "availability": str, "condition": str,
    "category": str, "data": dict, "parser": str, "parser_version": str, "first_seen_at": datetime,
    "scraped_at": datetime, "changed_at": datetime, "gone_at": datetime,
}  # fmt: skip
_AMOUNTS: Final = ("price", "price_high", "list_price")
_LAST_VERSION: Final = 2**31 - 1
ProductId = Annotated[int, Path(ge=1, le=BIGINT)]


class HistoryQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=PAGE, ge=1, le=1_000)
    after: int = Field(default=_LAST_VERSION, ge=1, le=_LAST_VERSION, description="The `next` of the page before.")


def products_router(pool: Pool) -> APIRouter:
    router = APIRouter(tags=["products"], dependencies=[require("read")])
    answers: dict[int | str, dict[str, Any]] = {
        200: {"model": Listing[Product], "headers": FRESHNESS, **media_types("Products, in the order of their ids.")}
    }

    @router.get("/api/products", responses=answers)
    async def get_products(request: Request, query: Annotated[ProductQuery, Query()]) -> Response:
        wanted, form = _filter(query), wanted_format(request, query.format)
        if form != "json":
            pieces = _pieces(pool, wanted=wanted, after=query.after, limit=query.limit)
            return await streamed(pieces, form=form, columns=COLUMNS, shape=_shape, name="products")
        limit = query.limit or PAGE
        async with pool.acquire() as conn:
            found = await find_products(conn, wanted=wanted, after=query.after, limit=limit, enough=limit)
        return _listing([_row(product) for product in found.products], following=found.following)

    @router.get(
        "/api/products/{product_id}", responses={200: {"model": Product, "headers": FRESHNESS}, **problems(404)}
    )
    async def get_product(product_id: ProductId) -> Response:
        async with pool.acquire() as conn:
            product = await _known(conn, product_id)
        fresh = freshness.headers([product.scraped_at], now=datetime.now(UTC))
        return Response(orjson.dumps(_shape(_row(product))), media_type="application/json", headers=fresh)

    @router.get(
        "/api/products/{product_id}/history",
        responses={200: {"model": Listing[Version], "headers": FRESHNESS}, **problems(404)},
    )
    async def get_history(product_id: ProductId, query: Annotated[HistoryQuery, Query()]) -> Response:
        """Newest first: what it was at each change."""
        async with pool.acquire() as conn:
            product = await _known(conn, product_id)
            versions = await list_versions(conn, product_id, before=query.after, limit=query.limit)
        rows = [_version(version, task_id=product.task_id) for version in versions]
        # Version 1 has none before it, and what is asked for is before a version above 0.
        more = len(versions) == query.limit and versions[-1].version > 1
        return _listing(rows, following=versions[-1].version if more else None)

    return router


async def _known(conn: Conn, product_id: int) -> StoredProduct:
    product = await read_product(conn, product_id)
    if product is None:
        raise Problem(404, "Unknown product", f"there is no product {product_id}")
    return product


def _filter(query: ProductQuery) -> ProductFilter:
    return ProductFilter(
        q=query.q,
        domain=query.domain,
        price_min=query.price_min,
        price_max=query.price_max,
        currency=query.currency.upper() if query.currency else None,
        availability=query.availability,
        updated_since=query.updated_since,
        sku=query.sku,
        gtin=query.gtin,
        gone=query.gone,
        listed=query.listed,
    )


async def _pieces(pool: Pool, *, wanted: ProductFilter, after: int, limit: int | None) -> AsyncIterator[Piece]:
    """Page by page, so that a slow reader holds neither a connection nor a transaction."""
    left = limit
    while left is None or left > 0:
        size = STREAM_PAGE if left is None else min(left, STREAM_PAGE)
        async with pool.acquire() as conn:
            # A piece may be short where the next one goes on from where it stopped to look.
            found = await find_products(conn, wanted=wanted, after=after, limit=size, enough=max(1, size // 20))
        yield [_row(product) for product in found.products]
        if found.following is None:
            return
        after = found.following
        left = None if left is None else left - len(found.products)


def _listing(rows: list[Row], *, following: int | None) -> Response:
    now, times = datetime.now(UTC), [row["scraped_at"] for row in rows]
    body = {
        "items": [_shape(row) for row in rows],
        "next": following,
        "_metadata": freshness.of_many(times, now=now),
    }
    return Response(orjson.dumps(body), media_type="application/json", headers=freshness.headers(times, now=now))


def _row(product: StoredProduct) -> Row:
    return product._asdict()


def _version(version: StoredVersion, *, task_id: int) -> Row:
    return {**version._asdict(), "task_id": task_id}


def _shape(row: Row) -> dict[str, Any]:
    """A row as JSON; of a version its product's task is only in the metadata."""
    about = freshness.metadata(row["scraped_at"], task_id=row["task_id"], attempt=row["attempt"], now=datetime.now(UTC))
    amounts = {name: format(row[name], "f") for name in _AMOUNTS if row.get(name) is not None}
    shown = {**row, **amounts, "data": orjson.Fragment(row["data"]), "_metadata": about}
    if "product_id" not in row:
        shown.pop("task_id")
    return shown
