"""Products of pages and what they were: written with their pages, in one statement for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from limpet.kit.pg import Conn
from limpet.parser.products import Product


class ProductPage(NamedTuple):
    """A page whose row this transaction has written, and therefore locked."""

    task_id: int
    attempt: int
    domain: str
    batch: str
    url: str
    parser: str
    parser_version: str
    scraped_at: datetime
    products: Sequence[Product]


# `known` is what this statement began with; nobody else writes products of these pages meanwhile.
# A version is one more where a later attempt shows something else. The same attempt, read by another parser, corrects
# the last version: what a parser learns is no change of the product.
KEEP_PRODUCTS: Final = """
    WITH page AS (
        SELECT * FROM unnest(
            $1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[]
        ) AS page (task_id, attempt, domain, batch, page_url, parser, parser_version, scraped_at)
    ), found AS (
        SELECT * FROM unnest(
            $9::bigint[], $10::text[], $11::text[], $12::boolean[], $13::text[], $14::text[], $15::text[], $16::text[],
            $17::text[], $18::numeric[], $19::numeric[], $20::numeric[], $21::text[], $22::text[], $23::text[],
            $24::text[], $25::text[], $26::bytea[]
        ) AS found (task_id, key, url, listed, name, brand, sku, gtin, mpn, price, price_high, list_price, currency,
                    availability, condition, category, data, digest)
    ), known AS (
        SELECT product.product_id, product.task_id, product.key, product.attempt, product.digest, product.gone_at
          FROM products AS product JOIN page USING (task_id)
    ), written AS (
        INSERT INTO products AS old (
            task_id, key, attempt, domain, batch, url, page_url, listed, name, brand, sku, gtin, mpn, price, price_high,
            list_price, currency, availability, condition, category, data, digest, parser, parser_version,
            first_seen_at, scraped_at, changed_at
        )
        SELECT task_id, key, attempt, domain, batch, url, page_url, listed, name, brand, sku, gtin, mpn, price,
               price_high, list_price, currency, availability, condition, category, data::jsonb, digest, parser,
               parser_version, scraped_at, scraped_at, scraped_at
          FROM found JOIN page USING (task_id)
         ORDER BY task_id, key
        ON CONFLICT (task_id, key) DO UPDATE
           SET attempt = excluded.attempt, domain = excluded.domain, batch = excluded.batch, url = excluded.url,
               page_url = excluded.page_url, listed = excluded.listed, name = excluded.name, brand = excluded.brand,
               sku = excluded.sku, gtin = excluded.gtin, mpn = excluded.mpn, price = excluded.price,
               price_high = excluded.price_high, list_price = excluded.list_price, currency = excluded.currency,
               availability = excluded.availability, condition = excluded.condition, category = excluded.category,
               data = excluded.data, digest = excluded.digest, parser = excluded.parser,
               parser_version = excluded.parser_version, scraped_at = excluded.scraped_at, gone_at = NULL,
               changed_at = CASE WHEN old.digest <> excluded.digest OR old.gone_at IS NOT NULL
                                 THEN excluded.scraped_at ELSE old.changed_at END,
               version = old.version + ((old.digest <> excluded.digest OR old.gone_at IS NOT NULL)
                                        AND old.attempt < excluded.attempt)::integer
     RETURNING product_id, task_id, key, version, attempt, digest, data, parser, parser_version, scraped_at
    ), gone AS (
        UPDATE products AS product
           SET gone_at = page.scraped_at, changed_at = page.scraped_at, scraped_at = page.scraped_at,
               version = version + (product.attempt < page.attempt)::integer, attempt = page.attempt,
               parser = page.parser, parser_version = page.parser_version
          FROM page
         WHERE product.task_id = page.task_id AND product.gone_at IS NULL
           AND NOT EXISTS (
               SELECT FROM found WHERE found.task_id = product.task_id AND found.key = product.key
           )
     RETURNING product.product_id, product.version, product.attempt, product.data, product.parser,
               product.parser_version, product.scraped_at
    ), versions AS (
        INSERT INTO product_versions AS old (
            product_id, version, attempt, gone, data, parser, parser_version, scraped_at
        )
        SELECT written.product_id, written.version, written.attempt, false, written.data, written.parser,
               written.parser_version, written.scraped_at
          FROM written LEFT JOIN known USING (product_id)
         WHERE known.product_id IS NULL OR known.digest <> written.digest OR known.gone_at IS NOT NULL
        UNION ALL
        SELECT product_id, version, attempt, true, data, parser, parser_version, scraped_at FROM gone
        ON CONFLICT (product_id, version) DO UPDATE
           SET gone = excluded.gone, data = excluded.data, parser = excluded.parser,
               parser_version = excluded.parser_version
     RETURNING 1
    )
    SELECT count(*) FROM versions
"""


async def keep_products(conn: Conn, pages: Sequence[ProductPage]) -> int:
    """Write the products of pages; those that a page has no more are gone. Returns the versions made or corrected."""
    found = [(page.task_id, product) for page in pages for product in page.products]
    products = [product for _, product in found]
    return int(
        await conn.fetchval(
            KEEP_PRODUCTS,
            [page.task_id for page in pages],
            [page.attempt for page in pages],
            [page.domain for page in pages],
            [page.batch for page in pages],
            [page.url for page in pages],
            [page.parser for page in pages],
            [page.parser_version for page in pages],
            [page.scraped_at for page in pages],
            [task_id for task_id, _ in found],
            [product.key for product in products],
            [product.url for product in products],
            [product.listed for product in products],
            [product.name for product in products],
            [product.brand for product in products],
            [product.sku for product in products],
            [product.gtin for product in products],
            [product.mpn for product in products],
            [product.price for product in products],
            [product.price_high for product in products],
            [product.list_price for product in products],
            [product.currency for product in products],
            [product.availability for product in products],
            [product.condition for product in products],
            [product.category for product in products],
            [product.data for product in products],
            [product.digest for product in products],
        )
    )


# The last version of a product is what it is now, however old.
PRUNE_VERSIONS: Final = """
    WITH old AS (
        SELECT version.product_id, version.version
          FROM product_versions AS version JOIN products AS product USING (product_id)
         WHERE version.scraped_at < now() - $1::interval AND version.version < product.version
         LIMIT $2
    )
    DELETE FROM product_versions AS version USING old
     WHERE version.product_id = old.product_id AND version.version = old.version
"""


async def prune_versions(conn: Conn, *, older_than: timedelta, limit: int) -> int:
    return int((await conn.execute(PRUNE_VERSIONS, older_than, limit)).split()[-1])


# A page that is written at this moment has its product's row locked: that one is for the next time.
PRUNE_PRODUCTS: Final = """
    WITH old AS (
        SELECT product_id FROM products WHERE gone_at < now() - $1::interval LIMIT $2 FOR UPDATE SKIP LOCKED
    ), versions AS (
        DELETE FROM product_versions AS version USING old WHERE version.product_id = old.product_id
    )
    DELETE FROM products AS product USING old WHERE product.product_id = old.product_id
"""


async def prune_products(conn: Conn, *, gone_for: timedelta, limit: int) -> int:
    return int((await conn.execute(PRUNE_PRODUCTS, gone_for, limit)).split()[-1])
