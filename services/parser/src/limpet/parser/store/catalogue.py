"""Products as they are looked for: in the order of their ids, with bounded work however common a word is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from limpet.kit.pg import Conn
from limpet.parser.store.items import PLAN_EACH

# How many rows are looked at, one after the other: enough for what is common, then for what is one in a thousand.
# Only what is rarer is gathered by its index, so that never many matches are put in order.
WALKS: Final = (1_000, 20_000)
_LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProductFilter:
    """None means any."""

    q: str | None = None
    domain: str | None = None
    price_min: Decimal | None = None
    price_max: Decimal | None = None
    currency: str | None = None
    availability: str | None = None
    updated_since: datetime | None = None
    sku: str | None = None
    gtin: str | None = None
    gone: bool | None = False
    listed: bool | None = None

    @property
    def values(self) -> tuple[object, ...]:
        return (
            self.q, self.domain, self.price_min, self.price_max, self.currency, self.availability, self.updated_since,
            self.sku, self.gtin, self.gone, self.listed,
        )  # fmt: skip


class StoredProduct(NamedTuple):
    product_id: int
    task_id: int
    attempt: int
    version: int
    domain: str
    batch: str
    url: str
    page_url: str
    listed: bool
    name: str
    brand: str | None
    sku: str | None
    gtin: str | None
    mpn: str | None
    price: Decimal | None
    price_high: Decimal | None
    list_price: Decimal | None
    currency: str | None
    availability: str | None
    condition: str | None
    category: str | None
    # JSON text.
    data: str
    parser: str
    parser_version: str
    first_seen_at: datetime
    scraped_at: datetime
    changed_at: datetime
    gone_at: datetime | None


class StoredVersion(NamedTuple):
    version: int
    attempt: int
    gone: bool
    # JSON text.
    data: str
    parser: str
    parser_version: str
    scraped_at: datetime


class Found(NamedTuple):
    products: Sequence[StoredProduct]
    # After which id there may be more; None at the end.
    following: int | None


# The id where a walk ends: read from an index alone. None where the table ends before that.
WALK_END: Final = """
    SELECT product_id FROM products
     WHERE product_id > $1 AND ($2::text IS NULL OR domain = $2)
     ORDER BY product_id
     OFFSET $3 LIMIT 1
"""

# A common word, or no word at all, fills a page from the first few thousand rows: no match beyond them is looked at.
WALK_PRODUCTS: Final = """
    SELECT product_id, task_id, attempt, version, domain, batch, url, page_url, listed, name, brand, sku, gtin, mpn,
           price, price_high, list_price, currency, availability, condition, category, data::text AS data, parser,
           parser_version, first_seen_at, scraped_at, changed_at, gone_at
      FROM products
     WHERE product_id > $12 AND product_id <= $14
       AND ($1::text IS NULL OR search @@ websearch_to_tsquery('simple', $1))
       AND ($2::text IS NULL OR domain = $2)
       AND ($3::numeric IS NULL OR price >= $3) AND ($4::numeric IS NULL OR price <= $4)
       AND ($5::text IS NULL OR currency = $5) AND ($6::text IS NULL OR availability = $6)
       AND ($7::timestamptz IS NULL OR changed_at >= $7)
       AND ($8::text IS NULL OR sku = $8) AND ($9::text IS NULL OR gtin = $9)
       AND ($10::boolean IS NULL OR (gone_at IS NOT NULL) = $10) AND ($11::boolean IS NULL OR listed = $11)
     ORDER BY product_id
     LIMIT $13
"""

# What is rare is gathered by its index, then put in order. Materialised, so that no plan walks the whole table by id.
GATHER_PRODUCTS: Final = """
    WITH hit AS MATERIALIZED (
        SELECT product_id FROM products
         WHERE product_id > $12
           AND ($1::text IS NULL OR search @@ websearch_to_tsquery('simple', $1))
           AND ($2::text IS NULL OR domain = $2)
           AND ($3::numeric IS NULL OR price >= $3) AND ($4::numeric IS NULL OR price <= $4)
           AND ($5::text IS NULL OR currency = $5) AND ($6::text IS NULL OR availability = $6)
           AND ($7::timestamptz IS NULL OR changed_at >= $7)
           AND ($8::text IS NULL OR sku = $8) AND ($9::text IS NULL OR gtin = $9)
           AND ($10::boolean IS NULL OR (gone_at IS NOT NULL) = $10) AND ($11::boolean IS NULL OR listed = $11)
    )
    SELECT product_id, task_id, attempt, version, domain, batch, url, page_url, listed, name, brand, sku, gtin, mpn,
           price, price_high, list_price, currency, availability, condition, category, data::text AS data, parser,
           parser_version, first_seen_at, scraped_at, changed_at, gone_at
      FROM products
     WHERE product_id = ANY (ARRAY(SELECT product_id FROM hit ORDER BY product_id LIMIT $13))
     ORDER BY product_id
"""


async def find_products(conn: Conn, *, wanted: ProductFilter, after: int, limit: int, enough: int) -> Found:
    """Up to `limit` products after an id: fewer than that, but at least `enough`, where going on is as good."""
    async with conn.transaction(readonly=True):
        await conn.execute(PLAN_EACH)
        if wanted.sku is None and wanted.gtin is None:
            for walk in WALKS:
                end = await conn.fetchval(WALK_END, after, wanted.domain, walk - 1)
                rows = await conn.fetch(WALK_PRODUCTS, *wanted.values, after, limit, _LAST if end is None else end)
                products = [StoredProduct(*row) for row in rows]
                if len(products) == limit:
                    return Found(products, products[-1].product_id)
                if end is None or len(products) >= enough:
                    return Found(products, end)
        rows = await conn.fetch(GATHER_PRODUCTS, *wanted.values, after, limit)
    products = [StoredProduct(*row) for row in rows]
    return Found(products, products[-1].product_id if len(products) == limit else None)


READ_PRODUCT: Final = """
    SELECT product_id, task_id, attempt, version, domain, batch, url, page_url, listed, name, brand, sku, gtin, mpn,
           price, price_high, list_price, currency, availability, condition, category, data::text AS data, parser,
           parser_version, first_seen_at, scraped_at, changed_at, gone_at
      FROM products WHERE product_id = $1
"""


async def read_product(conn: Conn, product_id: int) -> StoredProduct | None:
    row = await conn.fetchrow(READ_PRODUCT, product_id)
    return StoredProduct(*row) if row is not None else None


# Newest first.
LIST_VERSIONS: Final = """
    SELECT version, attempt, gone, data::text AS data, parser, parser_version, scraped_at
      FROM product_versions
     WHERE product_id = $1 AND version < $2
     ORDER BY version DESC
     LIMIT $3
"""


async def list_versions(conn: Conn, product_id: int, *, before: int, limit: int) -> list[StoredVersion]:
    return [StoredVersion(*row) for row in await conn.fetch(LIST_VERSIONS, product_id, before, limit)]
