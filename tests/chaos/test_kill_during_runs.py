"""Kill -9 of any process at random moments while runs collect: each ends committed once and whole, or aborted with its reason."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import asyncpg

from limpet.cli.local.platform import Platform
from tests.support.door import Door, open_door
from tests.support.site.lists import Lists
from tests.support.waiting import until

KILLS = int(os.environ.get("RUN_KILLS", "20"))
SEED = int(os.environ.get("RUN_SEED", "0")) or int.from_bytes(os.urandom(4))
# Every third run has a start page that is not there.
BROKEN_EVERY = 3
SHORT = {
    "LIMPET_ALLOWED_NETWORKS": "127.0.0.0/8",
    "LIMPET_FETCH_TIMEOUT_SECONDS": "3",
    "LIMPET_LEASE_MARGIN_SECONDS": "1",
    "LIMPET_ORDER_PATIENCE_SECONDS": "2",
    "LIMPET_PARSE_LEASE_SECONDS": "3",
    "LIMPET_RETRY_BASE_SECONDS": "0.3",
}
VICTIMS = ("scheduler-1", "scheduler-1", "fetcher-1", "parser", "proxy-broker", "health", "nats", "postgres")


async def test_s19_s20_no_run_is_ever_half_whoever_is_killed_whenever(tmp_path: Path) -> None:
    rng = Random(SEED)
    print(f"seed {SEED} (RUN_SEED repeats it)")
    with Platform(tmp_path / "limpet", env=SHORT) as platform:
        async with Lists(lists=12, pages=3, per_page=4, latency=0.15) as site, open_door(platform) as door:
            await door.make_domain(site.host, crawl_delay_seconds=0, max_concurrent_requests=8, obey_robots=False)
            killer = asyncio.create_task(kill_at_random(platform, rng))
            ended: Counter[str] = Counter()
            generation = 0
            while not killer.done():
                generation += 1
                broken = generation % BROKEN_EVERY == 0
                if broken:
                    site.gone.add((generation, generation % site.lists))
                run = await one_run(door, site, generation)
                await judge(door, site, run, generation=generation, broken=broken)
                ended[run["state"]] += 1
            await killer
            print(f"{KILLS} kills during {generation} runs: {dict(ended)}")
            assert ended["committed"] > 0
            await judge_all(door, site, generation)


async def one_run(door: Door, site: Lists, generation: int) -> dict[str, Any]:
    """The same request again is the same run, so it may be sent until somebody answers."""
    body = {
        "run_id": str(uuid4()), "site": site.host, "start_pages": site.start_urls(generation), "max_retries": 20,
    }  # fmt: skip
    answer = await door.send("POST", "/api/admin/runs", body=body)
    assert answer.status_code in (200, 201), answer.text
    assert answer.json()["run_id"] == body["run_id"], "the run before has ended, so this is a new one"

    async def over() -> Any:
        run = await door.get(f"/api/admin/runs/{body['run_id']}")
        return run if run["state"] != "collecting" else None

    try:
        found: dict[str, Any] = await until(over, seconds=120, every=0.1)
    except TimeoutError:
        pages = await door.get(f"/api/admin/runs/{body['run_id']}/start-pages")
        raise AssertionError(f"run of generation {generation} does not end: {pages}") from None
    return found


async def judge(door: Door, site: Lists, run: dict[str, Any], *, generation: int, broken: bool) -> None:
    urls = await published(door, site, generation)
    if broken:
        (gone,) = (number for at, number in site.gone if at == generation)
        assert (run["state"], run["gate"]) == ("aborted", "missing"), run
        assert site.start_urls(generation)[gone] in run["reason"], run
        assert urls == [], "nothing of an aborted run is published"
    else:
        assert run["state"] == "committed", run
        assert urls == sorted(site.item_urls(generation)), "all of it, and each once"
        assert (run["urls"], run["new_tasks"]) == (len(urls), len(urls))


async def judge_all(door: Door, site: Lists, generations: int) -> None:
    """At the end nothing has come late, and everything that was collected has gone."""

    async def cleared() -> bool:
        left = await again(door, "SELECT FROM runs WHERE cleared_at IS NULL OR announced_at IS NULL")
        return not left

    await until(cleared, seconds=60, every=0.2)
    for generation in range(1, generations + 1):
        wanted = set() if generation % BROKEN_EVERY == 0 else site.item_urls(generation)
        assert await published(door, site, generation) == sorted(wanted)
    assert await again(door, "SELECT FROM run_urls u JOIN runs r USING (run_id) WHERE r.state = 'committed'") == []
    twice = "SELECT task_id FROM audit WHERE event = 'submitted' GROUP BY task_id HAVING count(*) > 1"
    assert await again(door, twice) == []


async def published(door: Door, site: Lists, generation: int) -> list[str]:
    rows = await again(
        door,
        "SELECT url FROM crawl_tasks WHERE kind = 'page' AND starts_with(url, $1) ORDER BY url",
        f"{site.url}/g{generation}/",
    )
    return sorted(row["url"] for row in rows)


async def again(door: Door, statement: str, *values: object) -> list[Any]:
    """PostgreSQL may be the one that was just killed."""

    async def once() -> list[list[Any]]:
        try:
            return [await door.rows("scheduler", statement, *values)]
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return []

    return (await until(once, seconds=60, every=0.2))[0]


async def kill_at_random(platform: Platform, rng: Random) -> None:
    """The moment is the chance of the test, so it is drawn and not waited for."""
    for number in range(1, KILLS + 1):
        victim = rng.choice(VICTIMS)
        await asyncio.sleep(rng.uniform(0.5, 6.0))
        before = platform.child(victim).restarts
        print(f"{number}. killing {victim}")
        platform.kill(victim)

        async def back(victim: str = victim, before: int = before) -> bool:
            return platform.child(victim).restarts > before

        await until(back, seconds=30)
