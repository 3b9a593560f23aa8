"""A catalogue as crawls leave it: domain after domain, words from those in every name to those in one."""

from __future__ import annotations

from typing import Final

from limpet.kit.pg import Pool

PIECE: Final = 50_000
COLOURS: Final = ("red", "blue", "green", "black", "white", "grey", "brown", "yellow", "orange", "violet")
THINGS: Final = ("boots", "hat", "scarf", "coat", "shirt", "jeans", "socks", "gloves", "belt", "bag", "lamp", "chair")
BRANDS: Final = 2_000

# Every name has "the", a colour is in a tenth of them, a thing in a twelfth, a brand in one of 2,000, a number in one.
FILL_SQL: Final = """
    INSERT INTO products (
        task_id, key, attempt, domain, batch, url, page_url, listed, name, brand, sku, gtin, price, currency,
        availability, category, data, digest, parser, parser_version, first_seen_at, scraped_at, changed_at
    )
    SELECT n, '', 1, 'shop-' || n / 10000 || '.bench', '', 'https://shop-' || n / 10000 || '.bench/p/' || n, '', false,
           made.name, made.brand, 'sku' || n, lpad(n::text, 13, '4'), made.price,
           CASE WHEN n % 5 = 0 THEN 'USD' ELSE 'EUR' END,
           CASE WHEN n % 10 = 0 THEN 'out_of_stock' ELSE 'in_stock' END, 'goods',
           jsonb_build_object('name', made.name, 'brand', made.brand, 'price', made.price::text, 'currency', 'EUR',
                              'description', repeat('What it is and what it does. ', 10)),
           ''::bytea, 'product', '1', now() - interval '400 days', now() - random() * interval '1 day',
           now() - random() * interval '365 days'
      FROM generate_series($1::bigint, $2::bigint) AS n,
           LATERAL (
               SELECT 'The ' || ($3::text[])[(1 + abs(hashint8(n)) % 5 + 5 * (n % 2))::integer] || ' ' || ($4::text[])[(1 + n % 12)::integer]
                          || ' no ' || n AS name,
                      'brand' || abs(hashint8(n + 7)) % $5::integer AS brand,
                      round(exp(1 + 6 * random())::numeric, 2) AS price
           ) AS made
"""


async def fill(pool: Pool, count: int) -> None:
    for start in range(1, count + 1, PIECE):
        await pool.execute(
            FILL_SQL,
            start,
            min(start + PIECE - 1, count),
            list(COLOURS),
            list(THINGS),
            BRANDS,
        )
    await pool.execute("VACUUM (ANALYZE) products", timeout=600)
