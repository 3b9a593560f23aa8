"""The query API: products and items searched, paged, in four formats, each answer with its age."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from limpet.parser.store import catalogue
from tests.conftest import PoolFactory
from tests.support.parser_api import T0, ParserApi, keep, page, parser_api, product

MANY = 1200


@pytest.fixture
async def api(pool_of: PoolFactory) -> AsyncIterator[ParserApi]:
    async with parser_api(await pool_of("limpet.parser")) as api:
        yield api


async def names(api: ParserApi, **query: Any) -> list[str]:
    return [row["name"] for row in (await api.ok("GET", "/api/products", params=query))["items"]]


async def furnish(api: ParserApi) -> None:
    await keep(
        api.pool,
        page(1, product("Red boots", brand="Acme", price="10.00", sku="R-1", category="Shoes > Boots")),
        page(2, product("Blue boots", price="20.00", currency="USD", gtin="4006381333931")),
        page(3, product("Red hat", price="30.00", availability="out_of_stock"), domain="other.test"),
        page(4, product("Scarf", price=None)),
    )


async def test_p3_products_are_found_by_text_price_and_everything_else(api: ParserApi) -> None:
    await furnish(api)
    assert await names(api) == ["Red boots", "Blue boots", "Red hat", "Scarf"]
    assert await names(api, q="boots") == ["Red boots", "Blue boots"]
    assert await names(api, q="RED -hat") == ["Red boots"]
    assert await names(api, q="hat or scarf") == ["Red hat", "Scarf"]
    assert await names(api, q='"red boots"') == await names(api, q="acme") == await names(api, q="r-1") == ["Red boots"]
    assert await names(api, q="nowhere") == []
    assert await names(api, price_min="10.01", price_max="30") == ["Blue boots", "Red hat"]
    assert await names(api, currency="usd") == await names(api, gtin="4006381333931") == ["Blue boots"]
    assert await names(api, domain="other.test") == await names(api, availability="out_of_stock") == ["Red hat"]
    assert await names(api, sku="R-1") == ["Red boots"]
    assert await names(api, q="red", price_max=15, domain="shop.test") == ["Red boots"]


async def test_p3_updated_since_means_changed_and_not_only_seen(api: ParserApi) -> None:
    await furnish(api)
    await keep(api.pool, page(1, product("Red boots", brand="Acme", sku="R-1", category="Shoes > Boots"), attempt=5))
    await keep(api.pool, page(2, product("Blue boots", price="19.00"), attempt=5))
    since = (T0 + timedelta(hours=5)).isoformat()
    assert await names(api, updated_since=since) == ["Blue boots"]


async def test_p3_what_is_gone_is_found_only_where_it_is_asked_for(api: ParserApi) -> None:
    await furnish(api)
    await keep(api.pool, page(1, attempt=2, page_type="page"))
    assert "Red boots" not in await names(api)
    (gone,) = (await api.ok("GET", "/api/products?gone=true"))["items"]
    assert (gone["name"], gone["gone_at"]) == ("Red boots", "2026-01-01T02:00:00+00:00")


@pytest.mark.parametrize("walks", [(1,), (1, 3), (7,), catalogue.WALKS])
async def test_p3_pages_hold_every_match_once_however_they_are_looked_for(
    api: ParserApi, monkeypatch: pytest.MonkeyPatch, walks: tuple[int, ...]
) -> None:
    """Walked through, gathered by index or both: the same answer."""
    monkeypatch.setattr(catalogue, "WALKS", walks)
    await keep(api.pool, *(page(n, product(f"{'odd' if n % 2 else 'even'} x{n}")) for n in range(1, 41)))
    for wanted in ({}, {"q": "odd"}, {"q": "x39"}, {"q": "odd", "domain": "shop.test"}, {"domain": "none.test"}):
        seen: list[str] = []
        after: int | None = 0
        while after is not None:
            answer = await api.ok("GET", "/api/products", params={**wanted, "limit": 6, "after": after})
            seen += [row["name"] for row in answer["items"]]
            after = answer["next"]
        expected = [f"{'odd' if n % 2 else 'even'} x{n}" for n in range(1, 41)]
        expected = [name for name in expected if wanted.get("q", "") in name.split() or "q" not in wanted]
        assert seen == ([] if wanted.get("domain") == "none.test" else expected)
        streamed = await api.client.get("/api/products", params={**wanted, "format": "jsonl"})
        assert [orjson.loads(line)["name"] for line in streamed.content.splitlines()] == seen


async def test_p3_every_format_holds_the_same_products(api: ParserApi) -> None:
    await keep(api.pool, *(page(n, product(f'x"{n}, y', price=f"{n}.50")) for n in range(1, MANY + 1)))
    lines = await api.client.get("/api/products", headers={"Accept": "application/x-ndjson"})
    table = await api.client.get("/api/products?format=csv")
    binary = await api.client.get("/api/products", headers={"Accept": "application/vnd.apache.parquet;q=1, */*"})
    kinds = [answer.headers["content-type"].partition(";")[0] for answer in (lines, table, binary)]
    assert kinds == ["application/x-ndjson", "text/csv", "application/vnd.apache.parquet"]
    rows = [orjson.loads(line) for line in lines.content.splitlines()]
    expected = [(f'x"{n}, y', f"{n}.50") for n in range(1, MANY + 1)]
    assert [(row["name"], row["price"]) for row in rows] == expected
    cells = list(csv.DictReader(io.StringIO(table.text)))
    assert [(row["name"], row["price"]) for row in cells] == expected
    parquet = pq.read_table(io.BytesIO(binary.content))
    assert [(row["name"], row["price"]) for row in parquet.to_pylist()] == [(n, Decimal(p)) for n, p in expected]
    assert parquet.schema.field("scraped_at").type.tz == "UTC"
    assert list(cells[0]) == parquet.column_names
    assert orjson.loads(cells[0]["data"])["name"] == 'x"1, y'
    few = await api.client.get("/api/products?format=jsonl&limit=7")
    assert len(few.content.splitlines()) == 7


async def test_p3_items_come_in_the_same_formats(api: ParserApi) -> None:
    await keep(api.pool, page(1, {"title": "A"}, {"title": "B"}, parser="generic", page_type="page"))
    answer = await api.ok("GET", "/api/items")
    assert [row["data"] for row in answer["items"]] == [{"title": "A"}, {"title": "B"}]
    assert answer["items"][0]["parser_version"] == "1"
    for form in ("csv", "parquet"):
        got = await api.client.get(f"/api/items?format={form}")
        rows = (
            list(csv.DictReader(io.StringIO(got.text)))
            if form == "csv"
            else pq.read_table(io.BytesIO(got.content)).to_pylist()
        )
        assert [orjson.loads(row["data"]) for row in rows] == [{"title": "A"}, {"title": "B"}]
    lines = (await api.client.get("/api/items?format=jsonl")).content.splitlines()
    assert [orjson.loads(line)["data"]["title"] for line in lines] == ["A", "B"]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
async def test_p3_nothing_found_is_an_empty_file(api: ParserApi, form: str) -> None:
    got = await api.client.get(f"/api/products?format={form}")
    assert got.status_code == 200
    assert "x-data-freshness" not in got.headers
    if form == "parquet":
        assert pq.read_table(io.BytesIO(got.content)).num_rows == 0
    else:
        assert len(got.text.splitlines()) == (1 if form == "csv" else 0)


async def test_p3_a_cell_is_never_a_formula(api: ParserApi) -> None:
    await keep(api.pool, page(1, product("=1+1")))
    (row,) = csv.DictReader(io.StringIO((await api.client.get("/api/products?format=csv")).text))
    assert row["name"] == "'=1+1"


async def test_p3_one_product_and_what_it_was(api: ParserApi) -> None:
    for attempt, price in enumerate(("10.00", "10.00", "9.00", "8.00"), start=1):
        await keep(api.pool, page(1, product(price=price), attempt=attempt))
    (found,) = (await api.ok("GET", "/api/products"))["items"]
    one = await api.ok("GET", f"/api/products/{found['product_id']}")
    assert (one["version"], one["price"], one["data"]["price"]) == (3, "8.00", "8.00")
    path = f"/api/products/{found['product_id']}/history"
    first = await api.ok("GET", path, params={"limit": 2})
    rest = await api.ok("GET", path, params={"limit": 2, "after": first["next"]})
    told = [(row["version"], row["attempt"], row["data"]["price"]) for row in first["items"] + rest["items"]]
    assert told == [(3, 4, "8.00"), (2, 3, "9.00"), (1, 1, "10.00")]
    assert rest["next"] is None
    for path in ("/api/products/999", "/api/products/999/history"):
        assert (await api.ok("GET", path, 404))["title"] == "Unknown product"


async def test_p4_every_answer_says_how_old_it_is(api: ParserApi) -> None:
    now = datetime.now(UTC)
    old, new = now - timedelta(hours=2), now - timedelta(seconds=30)
    await keep(api.pool, page(1, product(), scraped_at=old), page(2, product("Hat"), scraped_at=new))
    product_id = (await api.ok("GET", "/api/products"))["items"][1]["product_id"]
    for path, scraped, scraper in (
        ("/api/products", old, None),
        ("/api/items", old, None),
        (f"/api/products/{product_id}", new, "2:1"),
        (f"/api/products/{product_id}/history", new, None),
        ("/api/items?task_id=2", new, None),
    ):
        answer = await api.client.get(path)
        said = datetime.fromisoformat(answer.headers["x-data-freshness"])
        assert abs(said - scraped) < timedelta(milliseconds=1)
        age = int(answer.headers["x-data-age-seconds"])
        assert abs(age - (datetime.now(UTC) - scraped).total_seconds()) < 5
        about = answer.json()["_metadata"]
        assert set(about) == {"scraped_at", "data_age_seconds", "scraper_id", "source"}
        assert (about["scraper_id"], about["source"]) == (scraper, "scraper")
        assert about["scraped_at"] == answer.headers["x-data-freshness"]
        assert abs(about["data_age_seconds"] - age) <= 1
    (item,) = (await api.ok("GET", "/api/items?task_id=2"))["items"]
    assert item["_metadata"]["scraper_id"] == "2:1"
    streamed = await api.client.get("/api/products?format=jsonl")
    assert "x-data-freshness" in streamed.headers
    assert "_metadata" in orjson.loads(streamed.content.splitlines()[0])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("price_min=abc", "price_min"), ("limit=0", "limit"), ("q=%00", "q"), ("q=", "q"), ("after=-1", "after"),
        ("updated_since=yesterday", "updated_since"), ("updated_since=2026-01-01T00:00:00", "updated_since"),
        ("currency=EURO", "currency"), ("format=xml", "format"), ("colour=red", "colour"), ("price_max=NaN", "price_max"),
    ],
)  # fmt: skip
async def test_p3_what_cannot_be_asked_is_named(api: ParserApi, query: str, field: str) -> None:
    answer = await api.ok("GET", f"/api/products?{query}", 422)
    assert answer["errors"][0]["field"] == field


async def test_p3_reading_needs_a_key(api: ParserApi) -> None:
    for path in ("/api/products", "/api/products/1", "/api/products/1/history", "/api/items"):
        assert (await api.client.get(path, headers={"Authorization": ""})).status_code == 401
        assert (await api.client.get(path, headers={"Authorization": "Bearer read"})).status_code in (200, 404)
