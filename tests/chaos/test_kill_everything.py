"""Kill -9 of everything in turn while 500 pages are crawled: nothing lost, nothing twice, no pace broken."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

from limpet.cli.local.nats import Nats
from limpet.cli.local.platform import Platform
from tests.support.door import Door, open_door
from tests.support.site import RequestLog, serve_apart
from tests.support.waiting import until

PAGES = 250
DELAY, AT_ONCE = 0.1, 3
RECEIVED_TOLERANCE = 0.030
ROUNDING = 2e-6
# Leases of seconds instead of half a minute: what is lost comes back while we watch.
SHORT = {
    "LIMPET_ALLOWED_NETWORKS": "127.0.0.0/8",
    "LIMPET_FETCH_TIMEOUT_SECONDS": "3",
    "LIMPET_LEASE_MARGIN_SECONDS": "1",
    "LIMPET_ORDER_PATIENCE_SECONDS": "3",
    "LIMPET_PARSE_LEASE_SECONDS": "5",
    "LIMPET_RETRY_BASE_SECONDS": "0.5",
}
VICTIMS = (
    "scheduler-1",
    "fetcher-1",
    "parser",
    "proxy-broker",
    "health",
    "nats",
    "postgres",
    "fetcher-1",
    "scheduler-1",
)


async def test_nothing_is_lost_and_no_pace_is_broken_whatever_is_killed(tmp_path: Path) -> None:
    log_file = tmp_path / "site.jsonl"
    with Platform(tmp_path / "limpet", env=SHORT) as platform:
        async with (
            serve_apart("--plain", str(PAGES), "--ports", "2", "--delay", "0.15", log_file=log_file) as site,
            open_door(platform) as door,
        ):
            paced, narrow = (url.removeprefix("http://") for url in site.urls)
            await door.make_domain(paced, crawl_delay_seconds=DELAY, max_concurrent_requests=20)
            await door.make_domain(narrow, crawl_delay_seconds=0, max_concurrent_requests=AT_ONCE)
            wanted = [f"{url}/p/{number}" for url in site.urls for number in range(PAGES)]
            await door.submit(wanted, batch="chaos")
            await kill_in_turn(door, platform, pages=len(wanted))
            await door.completed("chaos", len(wanted), seconds=120)
            await judge_results(door, wanted)
            await judge_pace(door, site.log, paced=paced, narrow=narrow)
            await judge_requests(door, site.log)


async def kill_in_turn(door: Door, platform: Platform, *, pages: int) -> None:
    """Spread over the crawl: each victim dies while pages are on their way."""
    for number, victim in enumerate(VICTIMS, start=1):
        await door.completed("chaos", pages * number // (len(VICTIMS) + 2), seconds=90)
        before = platform.child(victim).restarts
        print(f"killing {victim}")
        platform.kill(victim, before_restart=lambda: wipe(platform) if victim == "nats" else None)  # noqa: B023
        await door.completed("chaos", pages * number // (len(VICTIMS) + 2) + 5, seconds=90)
        # The others may go on so fast that five pages are done before it is back.
        await until(lambda: restarted(platform, victim, before), seconds=30)  # noqa: B023


async def restarted(platform: Platform, victim: str, before: int) -> bool:
    return platform.child(victim).restarts > before


def wipe(platform: Platform) -> None:
    store = Nats.in_folder(platform.data, port=0).store
    assert store.is_dir(), "NATS keeps its streams elsewhere: this test would wipe nothing"
    shutil.rmtree(store)


async def judge_results(door: Door, wanted: list[str]) -> None:
    tasks = await door.rows("scheduler", "SELECT url, status, attempt FROM crawl_tasks WHERE kind = 'page'")
    assert sorted(task["url"] for task in tasks) == sorted(wanted)
    assert {task["status"] for task in tasks} == {"completed"}
    items = await door.rows("parser", "SELECT page.url FROM items JOIN pages AS page USING (task_id, attempt)")
    assert sorted(item["url"] for item in items) == sorted(wanted), "each page has exactly one item"
    counters = await door.rows("scheduler", "SELECT sum(in_flight) AS open FROM domains")
    assert counters[0]["open"] == 0
    assert await door.rows("scheduler", "SELECT FROM permits") == []


async def judge_pace(door: Door, log: RequestLog, *, paced: str, narrow: str) -> None:
    gaps = [late - early for early, late in pairwise(await door.starts(paced))]
    assert min(gaps) >= DELAY - ROUNDING
    short = log.short_gaps(DELAY, tolerance=RECEIVED_TOLERANCE, host=paced)
    assert len(short) <= max(1, len(log.of(paced)) // 1000), short
    assert log.max_concurrency(narrow) <= AT_ONCE


async def judge_requests(door: Door, log: RequestLog) -> None:
    """An attempt makes at most one request, so nothing is asked for more often than there were attempts."""
    asked = Counter(f"http://{record.host}{record.path}" for record in log)
    tasks = await door.rows("scheduler", "SELECT url, attempt FROM crawl_tasks")
    attempts = {task["url"]: task["attempt"] for task in tasks}
    assert {url: count for url, count in asked.items() if count > attempts[url]} == {}
    again = sum(count - 1 for count in asked.values())
    print(f"{len(log)} requests for {len(asked)} pages, {again} of them repeats")
    assert again <= 2 * sum(victim in ("fetcher-1", "nats", "postgres") for victim in VICTIMS) * 25
