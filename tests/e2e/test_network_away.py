"""The network is away for 40 seconds: fetchers pause, say so, go on by themselves, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from limpet.cli.local.platform import Platform
from tests.e2e.conftest import QUICK
from tests.support.attempts import fetch_outcomes, nothing_is_out
from tests.support.door import open_door
from tests.support.relay import Relay
from tests.support.site import serve_apart
from tests.support.waiting import until

PAGES = 300
AWAY_SECONDS = 40.0
FETCHERS = ("fetcher-1", "fetcher-2")


async def test_f11_a_lost_network_pauses_the_fetchers_and_costs_nothing(tmp_path: Path) -> None:
    async with serve_apart("--plain", str(PAGES), log_file=tmp_path / "site.jsonl") as site:
        relay = Relay(int(site.url.rpartition(":")[2]))
        await relay.open()
        env = {**QUICK, "LIMPET_NETWORK_TARGETS": f"127.0.0.1:{relay.port}, localhost:{relay.port}"}
        with Platform(tmp_path / "limpet", fetchers=len(FETCHERS), env=env) as platform:
            async with open_door(platform) as door:
                await door.make_domain(f"127.0.0.1:{relay.port}", crawl_delay_seconds=0.05, max_concurrent_requests=10)
                urls = [f"http://127.0.0.1:{relay.port}/p/{number}" for number in range(PAGES)]
                await door.submit(urls, batch="away")
                await door.completed("away", PAGES // 3, seconds=60)
                pids = platform.pids
                await relay.close()
                reopen = asyncio.get_running_loop().time() + AWAY_SECONDS
                for name in FETCHERS:
                    assert "no target" in await waiting_for_network(platform, name)

                async def told() -> bool:
                    return bool((await door.get("/api/system/stats"))["workers"]["fetcher"]["paused"] == 2)

                await until(told)
                paused_at = (await door.counts("away"))["completed"]

                async def over() -> bool:
                    return asyncio.get_running_loop().time() >= reopen

                await until(over, seconds=AWAY_SECONDS + 5, every=0.5)
                assert (await door.counts("away"))["completed"] - paused_at < 20, "what was parsed meanwhile"
                await relay.open()
                await door.completed("away", PAGES, seconds=60)
                assert platform.pids == pids, "nobody had to be started again"
                outcomes = await fetch_outcomes(door, "away")
                await nothing_is_out(door)
        asked = Counter(record.path for record in site.log.of(prefix="/p/"))
        await relay.close()
    again = sum(count - 1 for count in asked.values())
    print(f"{dict(outcomes)}; {again} requests were cut off by the outage and made again")
    assert outcomes["fetched"] == PAGES
    assert set(outcomes) <= {"fetched", "no_network", "late"}, "no permit expired, no failure was counted"
    assert again <= outcomes["no_network"]
    for name in FETCHERS:
        events = [event["event"] for event in logged(tmp_path / "limpet" / "logs" / f"{name}.log")]
        assert (events.count("network_lost"), events.count("network_back")) == (1, 1)


async def waiting_for_network(platform: Platform, name: str) -> str:
    ops = f"http://127.0.0.1:{platform.runtime.ports[f'{name}.ops']}"
    async with httpx.AsyncClient(trust_env=False) as client:

        async def said() -> str:
            return str((await client.get(f"{ops}/readyz")).json()["waiting_for"].get("network", ""))

        why = await until(said, seconds=15)
        assert (await client.get(f"{ops}/livez")).status_code == 200
        assert 'limpet_fetcher_paused{reason="network"} 1.0' in (await client.get(f"{ops}/metrics")).text
    return why


def logged(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]
