"""Stored pages read again: no request, nothing twice, and a job that survives whoever works on it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from limpet.contracts.events.v1.page_pb2 import PageFetched
from limpet.kit.blobs import Blobs
from limpet.kit.pg import Pool, open_pool
from limpet.parser.reading import Reading, Unread
from limpet.parser.reparse import Read, Reparse
from tests.conftest import Database, PoolFactory
from tests.support.parser_api import T0, ParserApi, keep, page, parser_api, product
from tests.support.parts import running
from tests.support.read_stored import ReadStored
from tests.support.waiting import until

COUNT = 250
PATH = "/api/admin/reparse"


def shop_page(number: int, *, price: str = "10.00") -> bytes:
    offer = {"price": price, "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}
    found = {"@type": "Product", "name": f"Boots {number}", "sku": f"B-{number}", "brand": "Acme", "offers": offer}
    return b"<title>Shop</title><script type=application/ld+json>" + orjson.dumps(found) + b"</script>"


def by_version(read: Read, version: str, change: Callable[[dict[str, Any]], None]) -> Read:
    """The parser as it will be one day: another version, other items."""

    async def changed(pages: Sequence[PageFetched]) -> list[Reading | Unread]:
        return [_changed(found, version, change) for found in await read(pages)]

    return changed


def _changed(found: Reading | Unread, version: str, change: Callable[[dict[str, Any]], None]) -> Reading | Unread:
    if isinstance(found, Unread):
        return found
    items = [orjson.loads(item) for item in found.items]
    for item in items:
        change(item)
    return replace(found, parser_version=version, items=[orjson.dumps(item).decode() for item in items])


def dearer(item: dict[str, Any]) -> None:
    item["price"] = "11.00"
    item["condition"] = "new"
    item["brand"] = None


@dataclass(frozen=True)
class Shelf:
    """Pages that were fetched and parsed, with their bodies in a page store."""

    api: ParserApi
    pool: Pool
    blobs: Blobs
    read: Read

    async def fill(self, count: int, *, first: int = 1, **values: Any) -> None:
        numbers = range(first, first + count)
        keys = await self.blobs.put_many([shop_page(number) for number in numbers])
        for start in range(0, count, 500):
            part = list(zip(numbers, keys, strict=True))[start : start + 500]
            fetched = [
                PageFetched(task_id=n, url=f"https://shop.test/p/{n}", parser="product", body_key=key)
                for n, key in part
            ]
            rows = []
            for (number, key), found in zip(part, await self.read(fetched), strict=True):
                assert isinstance(found, Reading)
                given = {"body_key": key, "parser_version": found.parser_version, **values}
                rows.append(page(number, **given)._replace(items=found.items))
            await keep(self.pool, *rows)

    async def start(self, **body: Any) -> int:
        return int((await self.api.ok("POST", PATH, 202, json=body))["job_id"])

    async def job(self, job_id: int) -> dict[str, Any]:
        found: dict[str, Any] = await self.api.ok("GET", f"{PATH}/{job_id}")
        return found

    async def done(self, job_id: int, read: Read | None = None) -> dict[str, Any]:
        reparse = Reparse(self.pool, read or self.read)
        while await reparse.step():
            pass
        job = await self.job(job_id)
        assert job["state"] == "completed"
        return job

    async def state(self) -> list[Any]:
        return [
            await self.pool.fetch("SELECT * FROM items ORDER BY item_id"),
            await self.pool.fetch("SELECT * FROM products ORDER BY product_id"),
            await self.pool.fetch("SELECT * FROM product_versions ORDER BY product_id, version"),
        ]


@pytest.fixture
async def shelf(pool_of: PoolFactory, tmp_path: Path) -> Any:
    pool = await pool_of("limpet.parser")
    blobs = Blobs.open(tmp_path.as_uri())
    async with parser_api(pool) as api:
        yield Shelf(api, pool, blobs, ReadStored(blobs))


async def test_p8_a_domain_is_read_again_and_twice_gives_no_new_versions(shelf: Shelf) -> None:
    await shelf.fill(COUNT)
    newer = by_version(shelf.read, "99", dearer)
    first = await shelf.done(await shelf.start(domain="shop.test"), newer)
    assert (first["total"], first["read_count"], first["written_count"], first["changed_count"]) == (COUNT,) * 4
    once = await shelf.state()
    assert {row["parser_version"] for row in once[1]} == {"99"}
    assert {row["version"] for row in once[1]} == {1}
    assert len(once[2]) == COUNT, "what a parser learns is no change of the product"
    second = await shelf.done(await shelf.start(domain="shop.test"), newer)
    assert (second["read_count"], second["written_count"], second["same_count"]) == (COUNT, 0, COUNT)
    assert await shelf.state() == once
    items = await shelf.api.ok("GET", "/api/items?limit=1000")
    assert {(item["attempt"], item["parser_version"], item["data"]["price"]) for item in items["items"]} == {
        (1, "99", "11.00")
    }


async def test_p8_a_dry_run_tells_the_difference_and_writes_nothing(shelf: Shelf) -> None:
    await shelf.fill(30)
    before = await shelf.state()
    job = await shelf.done(await shelf.start(domain="shop.test", dry_run=True), by_version(shelf.read, "99", dearer))
    assert (job["read_count"], job["written_count"], job["changed_count"]) == (30, 0, 30)
    fields = job["differences"]["fields"]
    counts = {name: (found["added"], found["removed"], found["changed"]) for name, found in fields.items()}
    assert counts == {"price": (0, 0, 30), "condition": (30, 0, 0), "brand": (0, 30, 0)}
    assert fields["price"]["samples"][0] == {
        "task_id": 1, "url": "https://shop.test/p/1", "before": "10.00", "after": "11.00",
    }  # fmt: skip
    assert len(fields["price"]["samples"]) == 5
    assert await shelf.state() == before


@pytest.mark.parametrize(
    ("wanted", "tasks"),
    [
        ({"task_id": 2}, {2}),
        ({"batch": "b"}, {3}),
        ({"domain": "other.test"}, {4}),
        ({"from": (T0 + timedelta(days=1)).isoformat()}, {5}),
        ({"domain": "shop.test", "to": (T0 + timedelta(days=1)).isoformat()}, {1, 2, 3}),
    ],
)
async def test_p8_a_task_a_batch_a_domain_or_a_time_range_is_read_again(
    shelf: Shelf, wanted: dict[str, Any], tasks: set[int]
) -> None:
    await shelf.fill(2)
    await shelf.fill(1, first=3, batch="b")
    await shelf.fill(1, first=4, domain="other.test")
    await shelf.fill(1, first=5, scraped_at=T0 + timedelta(days=2))
    job = await shelf.done(await shelf.start(**wanted), by_version(shelf.read, "99", dearer))
    assert job["total"] == job["written_count"] == len(tasks)
    rows = await shelf.pool.fetch("SELECT task_id FROM pages WHERE parser_version = '99'")
    assert {row["task_id"] for row in rows} == tasks


async def test_p8_another_parser_may_read_the_pages(shelf: Shelf) -> None:
    await shelf.fill(3)
    await shelf.done(await shelf.start(domain="shop.test", parser="generic"))
    assert await shelf.pool.fetchval("SELECT array_agg(DISTINCT parser) FROM pages") == ["generic"]
    assert await shelf.pool.fetchval("SELECT count(*) FROM products WHERE gone_at IS NULL") == 0


async def test_p8_a_page_that_is_fetched_again_meanwhile_wins(shelf: Shelf) -> None:
    await shelf.fill(2)

    async def interrupted(pages: Sequence[PageFetched]) -> Sequence[Reading | Unread]:
        found = await by_version(shelf.read, "99", dearer)(pages)
        await keep(shelf.pool, page(1, product("Newer", price="5.00"), attempt=2))
        return found

    job = await shelf.done(await shelf.start(domain="shop.test"), interrupted)
    assert (job["written_count"], job["outdated_count"]) == (1, 1)
    kept = await shelf.pool.fetch("SELECT task_id, attempt, data ->> 'name' AS name FROM items ORDER BY task_id")
    assert [tuple(row) for row in kept] == [(1, 2, "Newer"), (2, 1, "Boots 2")]


async def test_p8_pages_that_the_page_store_let_go_are_counted_as_gone_and_keep_their_items(shelf: Shelf) -> None:
    await shelf.fill(3)
    pack = (await shelf.pool.fetchval("SELECT body_key FROM pages LIMIT 1")).partition("#")[0]
    await shelf.fill(2, first=4)
    await shelf.blobs.drop([pack])
    before = await shelf.pool.fetch("SELECT * FROM items WHERE task_id <= 3")
    job = await shelf.done(await shelf.start(domain="shop.test"), by_version(shelf.read, "99", dearer))
    assert (job["read_count"], job["gone_count"], job["failed_count"], job["written_count"]) == (5, 3, 0, 2)
    assert await shelf.pool.fetch("SELECT * FROM items WHERE task_id <= 3") == before


async def test_p8_a_cancelled_job_writes_nothing_more(shelf: Shelf) -> None:
    await shelf.fill(250)
    job_id = await shelf.start(domain="shop.test")
    newer = by_version(shelf.read, "99", dearer)

    async def cancelling(pages: Sequence[PageFetched]) -> Sequence[Reading | Unread]:
        found = await newer(pages)
        if pages[0].task_id > 100:
            await shelf.api.ok("POST", f"{PATH}/{job_id}/cancel")
        return found

    reparse = Reparse(shelf.pool, cancelling)
    while await reparse.step():
        pass
    job = await shelf.job(job_id)
    assert (job["state"], job["read_count"], job["written_count"]) == ("cancelled", 100, 100)
    assert await shelf.pool.fetchval("SELECT count(*) FROM pages WHERE parser_version = '99'") == 100
    await shelf.api.ok("POST", f"{PATH}/{job_id}/cancel")


async def test_p8_two_parsers_share_the_jobs_and_count_each_page_once(shelf: Shelf) -> None:
    await shelf.fill(COUNT)
    jobs = [await shelf.start(domain="shop.test"), await shelf.start(batch="none"), await shelf.start(task_id=1)]
    newer = by_version(shelf.read, "99", dearer)
    async with (
        running(Reparse(shelf.pool, newer, piece=20, every=0.01).run()),
        running(Reparse(shelf.pool, newer, piece=20, every=0.01).run()),
    ):

        async def all_done() -> bool:
            return all([(await shelf.job(job_id))["state"] == "completed" for job_id in jobs])

        await until(all_done)
    first = await shelf.job(jobs[0])
    # The page that is in two jobs may have been written by the other one since this one looked at it.
    assert first["read_count"] == first["written_count"] + first["same_count"] + first["outdated_count"] == COUNT
    assert first["outdated_count"] <= 1
    assert await shelf.pool.fetchval("SELECT count(*) FROM pages WHERE parser_version = '99'") == COUNT


def work_until_killed(dsn: str, pages: str, marker: str) -> None:
    """In a process of its own: does some pieces, then stops in the middle of one for ever."""

    async def work() -> None:
        blobs = Blobs.open(pages)
        read = by_version(ReadStored(blobs), "99", dearer)

        async def stuck(fetched: Sequence[PageFetched]) -> Sequence[Reading | Unread]:
            found = await read(fetched)
            if fetched[0].task_id > 60:
                await asyncio.to_thread(Path(marker).touch)
                await asyncio.Event().wait()
            return found

        async with open_pool(dsn) as pool:
            await Reparse(pool, stuck, piece=20, hold=timedelta(seconds=1)).run()

    asyncio.run(work())


async def test_p8_a_job_whose_parser_was_killed_goes_on_where_it_stood(database: Database, tmp_path: Path) -> None:
    dsn = await database("limpet.parser")
    blobs = Blobs.open((tmp_path / "pages").as_uri())
    async with open_pool(dsn) as pool, parser_api(pool) as api:
        shelf = Shelf(api, pool, blobs, ReadStored(blobs))
        await shelf.fill(150)
        job_id = await shelf.start(domain="shop.test")
        marker = tmp_path / "stuck"
        worker = multiprocessing.get_context("spawn").Process(
            target=work_until_killed, args=(dsn, (tmp_path / "pages").as_uri(), str(marker)), daemon=True
        )
        worker.start()

        async def stuck() -> bool:
            return marker.exists()

        await until(stuck)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        await asyncio.to_thread(worker.join)
        half = await shelf.job(job_id)
        assert (half["state"], half["read_count"], half["written_count"]) == ("running", 60, 60)
        async with running(Reparse(pool, by_version(shelf.read, "99", dearer), piece=20, every=0.05).run()):

            async def completed() -> bool:
                return bool((await shelf.job(job_id))["state"] == "completed")

            await until(completed)
        whole = await shelf.job(job_id)
        assert (whole["read_count"], whole["written_count"], whole["same_count"]) == (150, 150, 0)


async def test_p8_a_job_is_made_once_for_an_idempotency_key(shelf: Shelf) -> None:
    made = [
        (await shelf.api.ok("POST", PATH, 202, json={"domain": "x"}, headers={"Idempotency-Key": "k"}))["job_id"]
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert len((await shelf.api.ok("GET", PATH))["items"]) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"), ({"dry_run": True}, "body"), ({"domain": "x", "parser": "klingon"}, "parser"),
        ({"task_id": 0}, "task_id"), ({"domain": "x", "colour": 1}, "colour"), ({"from": "soon"}, "from"),
    ],
)  # fmt: skip
async def test_p8_what_cannot_be_read_again_is_named(shelf: Shelf, body: dict[str, Any], field: str) -> None:
    assert (await shelf.api.ok("POST", PATH, 422, json=body))["errors"][0]["field"] == field


async def test_p8_starting_and_cancelling_need_the_role_operate(shelf: Shelf) -> None:
    reader = {"Authorization": "Bearer read"}
    await shelf.api.ok("POST", PATH, 403, json={"domain": "x"}, headers=reader)
    job_id = await shelf.start(domain="x")
    await shelf.api.ok("POST", f"{PATH}/{job_id}/cancel", 403, headers=reader)
    await shelf.api.ok("GET", f"{PATH}/{job_id}", headers=reader)
    await shelf.done(job_id)
    await shelf.api.ok("POST", f"{PATH}/{job_id}/cancel", 409)
    await shelf.api.ok("GET", f"{PATH}/999", 404)
