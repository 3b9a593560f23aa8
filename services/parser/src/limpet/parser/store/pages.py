"""Parsed pages and their items: one set per task, the latest attempt's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from limpet.kit.pg import Conn
from limpet.parser.products import Product, holds_products, products_of
from limpet.parser.store.products import ProductPage, keep_products


class ParsedPage(NamedTuple):
    task_id: int
    attempt: int
    domain: str
    batch: str
    url: str
    parser: str
    parser_version: str
    page_type: str
    title: str
    body_key: str
    content_type: str
    charset: str
    scraped_at: datetime
    link_count: int
    # JSON texts, in the order of the page.
    items: Sequence[str]


# The page's row decides: a repeat or an earlier attempt does not get past it, so its items are not written either.
# The same attempt counts again only where another parser, or another version of it, has read the page.
KEEP_PAGES: Final = """
    WITH kept AS (
        INSERT INTO pages AS known (
            task_id, attempt, domain, batch, url, parser, parser_version, page_type, title, item_count,
            body_key, content_type, charset, scraped_at, link_count, product_count
        )
        SELECT * FROM unnest(
            $1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::integer[], $11::text[], $12::text[], $13::text[], $14::timestamptz[], $18::integer[],
            $19::integer[]
        )
        ON CONFLICT (task_id) DO UPDATE
           SET attempt = excluded.attempt, domain = excluded.domain, batch = excluded.batch, url = excluded.url,
               parser = excluded.parser, parser_version = excluded.parser_version,
               page_type = excluded.page_type, title = excluded.title, item_count = excluded.item_count,
               body_key = excluded.body_key, content_type = excluded.content_type, charset = excluded.charset,
               scraped_at = excluded.scraped_at, link_count = excluded.link_count,
               product_count = excluded.product_count, products_before = known.product_count, parsed_at = now()
         WHERE known.attempt < excluded.attempt
            OR (known.attempt = excluded.attempt
                AND (known.parser, known.parser_version) <> (excluded.parser, excluded.parser_version))
     RETURNING task_id, attempt, domain, batch, item_count, product_count + products_before > 0 AS products
    ), surplus AS (
        DELETE FROM items USING kept
         WHERE items.task_id = kept.task_id AND items.position >= kept.item_count
    ), written AS (
        INSERT INTO items (task_id, position, attempt, domain, batch, data)
        SELECT kept.task_id, found.position, kept.attempt, kept.domain, kept.batch, found.data::jsonb
          FROM unnest($15::bigint[], $16::integer[], $17::text[]) AS found (task_id, position, data)
          JOIN kept USING (task_id)
         ORDER BY kept.task_id, found.position
        ON CONFLICT (task_id, position) DO UPDATE
           SET attempt = excluded.attempt, domain = excluded.domain, batch = excluded.batch, data = excluded.data
    )
    SELECT task_id, products FROM kept
"""


async def keep_pages(conn: Conn, pages: Sequence[ParsedPage]) -> set[int]:
    """Write pages with their items in one statement, and their products in another; returns the tasks that were news."""
    # A statement may touch a row once, and rows are locked in one order by everybody.
    latest = {page.task_id: page for page in sorted(pages, key=lambda page: page.attempt)}
    rows = sorted(latest.values(), key=lambda page: page.task_id)
    products = {page.task_id: products_of(page.items, page_url=page.url) for page in rows if _holds_products(page)}
    async with conn.transaction():
        kept = await _write(conn, rows, counts=[len(products.get(page.task_id, ())) for page in rows])
        # Most pages have no products and never had any: they do not pay for those that do.
        if touched := {task_id for task_id, has_products in kept if has_products}:
            shown = [_shown(page, products.get(page.task_id, ())) for page in rows if page.task_id in touched]
            await keep_products(conn, shown)
    return {task_id for task_id, _ in kept}


async def _write(conn: Conn, rows: Sequence[ParsedPage], *, counts: Sequence[int]) -> list[tuple[int, bool]]:
    items = [(page.task_id, position, item) for page in rows for position, item in enumerate(page.items)]
    kept = await conn.fetch(
        KEEP_PAGES,
        [page.task_id for page in rows],
        [page.attempt for page in rows],
        [page.domain for page in rows],
        [page.batch for page in rows],
        [page.url for page in rows],
        [page.parser for page in rows],
        [page.parser_version for page in rows],
        [page.page_type for page in rows],
        [page.title for page in rows],
        [len(page.items) for page in rows],
        [page.body_key for page in rows],
        [page.content_type for page in rows],
        [page.charset for page in rows],
        [page.scraped_at for page in rows],
        [item[0] for item in items],
        [item[1] for item in items],
        [item[2] for item in items],
        [page.link_count for page in rows],
        counts,
    )
    return [(row["task_id"], row["products"]) for row in kept]


def _holds_products(page: ParsedPage) -> bool:
    return holds_products(parser=page.parser, page_type=page.page_type)


def _shown(page: ParsedPage, products: Sequence[Product]) -> ProductPage:
    return ProductPage(
        task_id=page.task_id,
        attempt=page.attempt,
        domain=page.domain,
        batch=page.batch,
        url=page.url,
        parser=page.parser,
        parser_version=page.parser_version,
        scraped_at=page.scraped_at,
        products=products,
    )
