"""Products and what they were: only what really changed makes a version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from limpet.kit.pg import Pool
from tests.conftest import PoolFactory
from tests.support.parser_api import T0, keep, page, product


@pytest.fixture
async def pool(pool_of: PoolFactory) -> Pool:
    return await pool_of("limpet.parser")


async def versions(pool: Pool, task: int = 1) -> list[tuple[int, int, bool, str | None]]:
    rows = await pool.fetch(
        """SELECT v.version, v.attempt, v.gone, v.data ->> 'price' AS price FROM product_versions v
             JOIN products USING (product_id) WHERE task_id = $1 ORDER BY product_id, version""",
        task,
    )
    return [tuple(row) for row in rows]


async def test_p2_a_product_is_one_row_with_its_values_in_columns(pool: Pool) -> None:
    await keep(pool, page(1, product(sku="B-1", gtin="4006381333931", brand="Acme", price="1299.00")))
    row = await pool.fetchrow("SELECT * FROM products")
    assert row is not None
    assert (row["name"], row["brand"], row["sku"], row["gtin"]) == ("Boots", "Acme", "B-1", "4006381333931")
    assert (str(row["price"]), row["currency"], row["availability"]) == ("1299.00", "EUR", "in_stock")
    assert (row["key"], row["listed"], row["version"], row["parser_version"]) == ("", False, 1, "1")
    assert row["url"] == row["page_url"] == "https://shop.test/p/1"
    assert row["first_seen_at"] == row["changed_at"] == row["scraped_at"] == T0 + timedelta(hours=1)


async def test_p2_only_a_real_change_makes_a_version(pool: Pool) -> None:
    first = page(1, product())
    await keep(pool, first)
    assert await keep(pool, first) == set(), "a repeat is no news"
    await keep(pool, page(1, product(rating={"value": "4.5"}, images=["https://x.test/1?token=2"]), attempt=2))
    await keep(pool, page(1, product(price="10.0"), attempt=3))
    assert await versions(pool) == [(1, 1, False, "10.00")]
    row = await pool.fetchrow("SELECT attempt, version, scraped_at, changed_at FROM products")
    assert row is not None
    assert tuple(row) == (3, 1, T0 + timedelta(hours=3), T0 + timedelta(hours=1))
    await keep(pool, page(1, product(price="9.00"), attempt=4))
    await keep(pool, page(1, product(price="9.00", availability="out_of_stock"), attempt=5))
    assert await versions(pool) == [(1, 1, False, "10.00"), (2, 4, False, "9.00"), (3, 5, False, "9.00")]


async def test_p8_a_page_parsed_again_corrects_the_last_version_and_makes_none(pool: Pool) -> None:
    await keep(pool, page(1, product(price="10.00")))
    await keep(pool, page(1, product(price="10.00"), attempt=2))
    better = page(1, product(price="12.00", brand="Acme"), attempt=2, parser_version="2")
    assert await keep(pool, better) == {1}
    assert await keep(pool, better) == set()
    assert await versions(pool) == [(1, 1, False, "12.00")]
    row = await pool.fetchrow("SELECT version, brand, parser_version FROM products")
    assert row is not None
    assert tuple(row) == (1, "Acme", "2")


async def test_p2_a_product_that_its_page_has_no_more_is_gone_and_may_come_back(pool: Pool) -> None:
    await keep(pool, page(1, product()), page(2, product("Hat")))
    await keep(pool, page(1, attempt=2, page_type="page"))
    assert await versions(pool) == [(1, 1, False, "10.00"), (2, 2, True, "10.00")]
    assert await pool.fetchval("SELECT gone_at FROM products WHERE task_id = 1") == T0 + timedelta(hours=2)
    assert await pool.fetchval("SELECT gone_at FROM products WHERE task_id = 2") is None
    await keep(pool, page(1, attempt=3, page_type="page"))
    assert len(await versions(pool)) == 2, "gone twice is gone once"
    await keep(pool, page(1, product(), attempt=4))
    assert await versions(pool) == [(1, 1, False, "10.00"), (2, 2, True, "10.00"), (3, 4, False, "10.00")]
    assert await pool.fetchval("SELECT count(*) FROM products WHERE gone_at IS NULL") == 2


async def test_p2_a_page_that_another_parser_reads_now_has_no_products_any_more(pool: Pool) -> None:
    await keep(pool, page(1, product()))
    await keep(pool, page(1, {"title": "Boots"}, attempt=2, parser="generic", page_type="page"))
    assert await pool.fetchval("SELECT gone_at IS NOT NULL FROM products") is True


async def test_p2_products_of_a_list_keep_their_rows_wherever_they_stand(pool: Pool) -> None:
    boots, hat = product(url="https://shop.test/boots"), product("Hat", url="https://shop.test/hat")
    await keep(pool, page(1, boots, hat, page_type="listing"))
    before = await pool.fetch("SELECT product_id, name FROM products WHERE listed ORDER BY name")
    await keep(pool, page(1, hat, product("New", url="https://shop.test/new"), boots, attempt=2, page_type="listing"))
    after = await pool.fetch("SELECT product_id, name FROM products WHERE name <> 'New' ORDER BY name")
    assert before == after
    assert len(before) == 2
    assert await pool.fetchval("SELECT count(*) FROM product_versions") == 3


async def test_p2_an_earlier_attempt_changes_nothing(pool: Pool) -> None:
    await keep(pool, page(1, product(price="9.00"), attempt=2))
    assert await keep(pool, page(1, product(price="10.00"), attempt=1, parser_version="9")) == set()
    assert await versions(pool) == [(1, 2, False, "9.00")]


@pytest.mark.parametrize(
    "price", ["1e400", "NaN", "Infinity", "9" * 40, "abc", "", None, 5, True, {"a": 1}, "0.000000000001"]
)
async def test_p2_whatever_a_price_is_the_page_is_kept(pool: Pool, price: Any) -> None:
    assert await keep(pool, page(1, product(price=price, name="x" * 5000, sku="y" * 5000, category=["a", "b"]))) == {1}
    kept = await pool.fetchval("SELECT price FROM products")
    assert kept is None or (price in (5, "0.000000000001") and kept <= 5)
