"""A fetcher is told to stop under load: it ends with 0 in its grace, and no page waits for a permit to expire."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from limpet.cli.local.platform import Platform
from tests.e2e.conftest import QUICK
from tests.support.attempts import fetch_outcomes, nothing_is_out
from tests.support.door import Door, open_door
from tests.support.site import serve_apart
from tests.support.waiting import until

GRACE = 3.0
# Python's own end and the supervisor's look at it.
SLACK = 2.0
VICTIM = "fetcher-1"


@pytest.fixture
async def own_door(tmp_path: Path) -> AsyncIterator[Door]:
    with Platform(tmp_path / "limpet", fetchers=2, env={**QUICK, "LIMPET_DRAIN_SECONDS": str(GRACE)}) as platform:
        async with open_door(platform) as door:
            yield door


async def terminate(platform: Platform) -> tuple[int, float]:
    """Exit code of the victim and the seconds that it took."""
    child = platform.child(VICTIM)
    before = child.restarts
    started = time.monotonic()
    os.kill(platform.pids[VICTIM], signal.SIGTERM)

    async def ended() -> bool:
        return child.restarts > before

    await until(ended, seconds=30)
    assert child.last_exit is not None
    return child.last_exit, time.monotonic() - started


async def test_f1_a_fetcher_under_load_ends_in_its_grace_with_nothing_lost(own_door: Door, tmp_path: Path) -> None:
    pages = 600
    async with serve_apart("--plain", str(pages), "--delay", "0.3", log_file=tmp_path / "site.jsonl") as site:
        await own_door.make_domain(site.url.removeprefix("http://"), crawl_delay_seconds=0, max_concurrent_requests=60)
        await own_door.submit([f"{site.url}/p/{number}" for number in range(pages)], batch="stopped")
        await own_door.completed("stopped", 120, seconds=60)
        code, took = await terminate(own_door.platform)
        await own_door.completed("stopped", pages, seconds=60)
        asked = Counter(record.path for record in site.log.of(prefix="/p/"))
    outcomes = await fetch_outcomes(own_door, "stopped")
    print(f"ended with {code} after {took:.2f} s; {dict(outcomes)}")
    assert code == 0
    assert took < GRACE + SLACK
    assert outcomes["lost"] == 0, "no permit had to expire"
    assert outcomes["fetched"] == pages
    assert {path: count for path, count in asked.items() if count > 1} == {}
    await nothing_is_out(own_door)


async def test_f1_requests_that_outlast_the_grace_go_back_before_it_ends(own_door: Door, tmp_path: Path) -> None:
    pages = 24
    async with serve_apart("--plain", str(pages), "--delay", "6", log_file=tmp_path / "site.jsonl") as site:
        await own_door.make_domain(
            site.url.removeprefix("http://"), crawl_delay_seconds=0, max_concurrent_requests=24, obey_robots=False
        )
        await own_door.submit([f"{site.url}/p/{number}" for number in range(pages)], batch="slow")

        async def under_way() -> bool:
            return (await own_door.counts("slow"))["crawling"] >= pages // 2

        await until(under_way, seconds=30, every=0.1)
        code, took = await terminate(own_door.platform)
        await own_door.completed("slow", pages, seconds=40)
    outcomes = await fetch_outcomes(own_door, "slow")
    print(f"ended with {code} after {took:.2f} s; {dict(outcomes)}")
    assert code == 0
    assert took < GRACE + SLACK
    assert outcomes["shutdown"] > 0, "what was cut off has come back at once"
    assert (outcomes["lost"], outcomes["fetched"]) == (0, pages)
    await nothing_is_out(own_door)
