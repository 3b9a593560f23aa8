"""`limpet export` and `limpet reparse` against a real parser's API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from limpet.cli.main import app
from limpet.kit.blobs import Blobs
from limpet.parser.reparse import Reparse
from tests.conftest import PoolFactory
from tests.support.parser_api import keep, page, parser_api, product
from tests.support.parts import running
from tests.support.read_stored import ReadStored

Run = Callable[..., Awaitable[Result]]


@dataclass(frozen=True)
class Desk:
    run: Run
    folder: Path


@pytest.fixture
async def desk(pool_of: PoolFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    pool = await pool_of("limpet.parser")
    blobs = Blobs.open((tmp_path / "pages").as_uri())
    key = await blobs.put(b"<title>Boots</title>")
    await keep(pool, *(page(n, product(f"Boots {n}", price=f"{n}.00"), body_key=key) for n in range(1, 4)))
    async with parser_api(pool) as api, running(Reparse(pool, ReadStored(blobs), every=0.05).run()):
        monkeypatch.setenv("LIMPET_URL", api.url)
        monkeypatch.setenv("LIMPET_API_KEY", "admin")
        monkeypatch.chdir(tmp_path)

        async def run(*words: str, code: int = 0) -> Result:
            done = await asyncio.to_thread(CliRunner().invoke, app, list(words))
            assert done.exit_code == code, (done.output, done.exception)
            return done

        yield Desk(run, tmp_path)


async def test_x6_products_are_exported_in_the_format_that_the_name_says(desk: Desk) -> None:
    await desk.run("export", "products", "--out", "all.parquet")
    assert pq.read_table(desk.folder / "all.parquet").column("name").to_pylist() == ["Boots 1", "Boots 2", "Boots 3"]
    await desk.run("export", "products", "--format", "csv", "--price-min", "2", "--q", "boots")
    assert len((desk.folder / "products.csv").read_text().splitlines()) == 3
    await desk.run("export", "items")
    lines = (desk.folder / "items.jsonl").read_text().splitlines()
    assert [json.loads(line)["data"]["name"] for line in lines] == ["Boots 1", "Boots 2", "Boots 3"]
    said = await desk.run("export", "items", "--out", "-")
    assert len([line for line in said.stdout.splitlines() if line.startswith("{")]) == 3


async def test_x6_what_cannot_be_exported_leaves_no_file(desk: Desk) -> None:
    for words in (("products", "--batch", "x"), ("items", "--q", "x"), ("products", "--price-min", "dear")):
        refused = await desk.run("export", *words, "--out", "x.csv", code=2)
        assert "error:" in refused.output
    await desk.run("export", "products", "--out", "no/such/folder.csv", code=2)
    assert [path.name for path in desk.folder.iterdir()] == ["pages"]


async def test_p8_a_dry_run_says_what_would_differ(desk: Desk) -> None:
    said = (await desk.run("reparse", "--domain", "shop.test", "--parser", "generic", "--dry-run")).output
    assert "dry run 1: completed, 3 of 3 pages read: 3 changed" in said
    assert "price: 3 removed" in said
    printed = (await desk.run("reparse", "--task", "1", "--parser", "generic", "--json")).stdout
    # The parser of this test logs into the same stream.
    job = json.loads(printed[printed.index("{") :])
    assert (job["state"], job["written_count"]) == ("completed", 1)
    assert "say which pages" in (await desk.run("reparse", code=2)).output
