"""`limpet crawl` as a person types it: a platform of its own, a file of items, a summary, an exit code."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.support.site import Plain, Shop

LIMPET = str(Path(sys.executable).with_name("limpet"))
QUICK = {"LIMPET_RETRY_BASE_SECONDS": "0.5", "LIMPET_BLOCK_BASE_SECONDS": "0.5"}


async def limpet(*words: str, seconds: float = 120) -> tuple[int, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_")} | QUICK
    process = await asyncio.create_subprocess_exec(
        LIMPET, *words, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), seconds)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_a_shop_is_crawled_whole_twice_and_bounded_once(tmp_path: Path) -> None:
    out, data = tmp_path / "items.jsonl", str(tmp_path / "limpet")
    async with Shop(30, slow_seconds=0.2, retry_after=1) as shop:
        whole = ("crawl", shop.url + "/", "--follow", "--delay", "0", "--out", str(out), "--data", data)
        code, said = await limpet(*whole)
        assert code == 0, said
        pages = len(shop.reachable())
        assert f"{pages} pages, {pages} items, 0 failed" in said.splitlines()[-1]
        assert {json.loads(line)["url"] for line in out.read_text().splitlines()} == shop.reachable()

        again, asked = await limpet(*whole), len(shop.log)
        assert again[0] == 0, again[1]
        assert asked >= 2 * pages, "a second crawl asks the site again"
        assert {json.loads(line)["url"] for line in out.read_text().splitlines()} == shop.reachable()

        code, said = await limpet(*whole, "--max-pages", "7")
        assert code == 0, said
        assert "7 pages, 7 items, 0 failed" in said.splitlines()[-1]


async def test_only_the_typed_host_is_allowed_on_a_private_address(tmp_path: Path) -> None:
    data = str(tmp_path / "limpet")
    async with Plain(1) as typed, Plain(1) as other:
        code, said = await limpet(
            *("crawl", typed.page_urls()[0], "--delay", "0", "--out", str(tmp_path / "a.jsonl"), "--data", data)
        )
        assert code == 0, said
        assert typed.log.paths() == ["/robots.txt", "/p/0"]
        allowed = (tmp_path / "limpet" / "allowed-hosts").read_text().split()
        assert allowed == [typed.host]
        assert len(other.log) == 0


async def test_a_wrong_url_is_told_with_what_to_do(tmp_path: Path) -> None:
    code, said = await limpet(
        "crawl", "shop.example", "--out", str(tmp_path / "a.jsonl"), "--data", str(tmp_path / "x")
    )
    assert code == 2
    assert "https://host/path" in said
