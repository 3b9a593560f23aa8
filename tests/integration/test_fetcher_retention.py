"""What is old goes from the database and from the page store; what anything refers to stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from limpet.fetcher.archive import Archive
from limpet.fetcher.retention import Retention
from limpet.fetcher.store import packs
from limpet.fetcher.store.responses import Response
from limpet.kit.blobs import BlobMissing, Blobs
from limpet.kit.pg import Pool
from tests.conftest import PoolFactory

KEPT = timedelta(days=30)
AT_ONCE = timedelta(0)


@dataclass
class Kept:
    pool: Pool
    blobs: Blobs
    folder: Path

    @property
    def archive(self) -> Archive:
        return Archive(self.pool, self.blobs)

    def retention(self, *, grace: timedelta = AT_ONCE, batch: int = 2000, kept: timedelta | None = KEPT) -> Retention:
        return Retention(self.pool, self.blobs, kept, grace=grace, batch=batch)

    async def page(self, task: int, body: bytes, *, attempt: int = 1) -> str:
        now = datetime.now(UTC)
        row = Response(
            task, attempt, "shop.test", "http://shop.test/", 200, "text/html", len(body), 5, "fetched", "", now
        )
        return await self.archive.keep(row, body)

    async def pass_days(self, days: int) -> None:
        """All that is there becomes so much older."""
        age = timedelta(days=days)
        await self.pool.execute("UPDATE http_responses SET fetched_at = fetched_at - $1::interval", age)
        await self.pool.execute("UPDATE packs SET last_used_at = last_used_at - $1::interval", age)

    async def count(self, table: str) -> int:
        return len(await self.pool.fetch(f"SELECT FROM {table}"))

    def files(self) -> int:
        return len(list(self.folder.rglob("*.pack")))


@pytest.fixture
async def kept(pool_of: PoolFactory, tmp_path: Path) -> Kept:
    return Kept(await pool_of("limpet.fetcher"), Blobs.open(tmp_path.as_uri()), tmp_path)


async def test_f10_old_answers_and_their_bodies_go_and_young_ones_stay(kept: Kept) -> None:
    old = await kept.page(1, b"old boots")
    await kept.pass_days(40)
    young = await kept.page(2, b"young boots")
    await kept.retention().round()
    assert [await kept.count(table) for table in ("http_responses", "bodies", "packs")] == [1, 1, 1]
    assert await kept.blobs.get(young) == b"young boots"
    with pytest.raises(BlobMissing):
        await kept.blobs.get(old)
    assert kept.files() == 1


async def test_f10_a_body_that_a_younger_answer_has_too_stays(kept: Kept) -> None:
    first = await kept.page(1, b"boots")
    await kept.pass_days(40)
    assert await kept.page(1, b"boots", attempt=2) == first
    await kept.retention().round()
    assert await kept.count("http_responses") == 1
    assert await kept.blobs.get(first) == b"boots"


async def test_f10_a_pack_goes_when_all_of_it_is_old(kept: Kept) -> None:
    (row,) = [await kept.blobs.put_many([b"one", b"two"])]
    now = datetime.now(UTC)
    for task, key in enumerate(row):
        await kept.pool.execute(
            "INSERT INTO http_responses VALUES ($1, 1, 'd', 'u', 200, 't', 3, $2, 5, 'fetched', '', $3)", task, key, now
        )
    await kept.pool.execute("INSERT INTO packs (pack) VALUES ($1)", row[0].partition("#")[0])
    await kept.pool.execute("UPDATE http_responses SET fetched_at = now() - interval '40 days' WHERE task_id = 0")
    await kept.retention().round()
    assert (await kept.count("http_responses"), kept.files()) == (1, 1)
    await kept.pass_days(40)
    await kept.retention().round()
    assert (await kept.count("http_responses"), kept.files()) == (0, 0)


async def test_f10_whoever_found_a_body_just_before_it_was_condemned_keeps_its_pack(kept: Kept) -> None:
    key = await kept.page(1, b"boots")
    await kept.pass_days(40)
    await kept.retention(grace=timedelta(hours=1)).round()
    assert (await kept.count("http_responses"), await kept.count("bodies"), kept.files()) == (0, 0, 1)
    # It had asked for known bodies before, and writes its row now.
    await kept.pool.execute("INSERT INTO bodies SELECT sha256('boots'), $1, 5", key)
    assert await kept.page(2, b"boots") == key
    await kept.retention().round()
    assert await kept.blobs.get(key) == b"boots"
    assert await kept.count("packs") == 1


async def test_f10_a_condemned_body_that_comes_again_is_stored_again(kept: Kept) -> None:
    await kept.page(1, b"boots")
    await kept.pass_days(40)
    await kept.retention(grace=timedelta(hours=1)).round()
    again = await kept.page(2, b"boots")
    await kept.retention().round()
    assert await kept.blobs.get(again) == b"boots"


async def test_f10_many_go_in_batches_and_one_fetcher_at_a_time_does_it(kept: Kept) -> None:
    for task in range(7):
        await kept.page(task, b"boots %d" % task)
    await kept.pass_days(40)
    async with kept.pool.acquire() as conn, conn.transaction():
        assert await packs.take_turn(conn)
        await kept.retention(batch=2).round()
        assert (await kept.count("http_responses"), kept.files()) == (7, 7)
    await kept.retention(batch=2).round()
    assert (await kept.count("http_responses"), kept.files()) == (0, 0)


async def test_f10_nothing_goes_where_all_is_kept_for_ever(kept: Kept) -> None:
    await kept.page(1, b"boots")
    await kept.pass_days(4000)
    await kept.retention(kept=None).round()
    assert (await kept.count("http_responses"), kept.files()) == (1, 1)


async def test_f10_a_pack_that_is_gone_already_is_no_obstacle(kept: Kept) -> None:
    key = await kept.page(1, b"boots")
    await kept.blobs.drop([key.partition("#")[0]])
    await kept.pass_days(40)
    await kept.retention().round()
    assert await kept.count("packs") == 0
