"""Clocks half a minute apart: the database's clock decides, and the pace holds."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from limpet.cli.local.platform import Platform
from tests.support.door import open_door
from tests.support.site import serve_apart

DELAY, PAGES = 0.2, 60
ROUNDING = 2e-6


def wrong_by(seconds: int) -> dict[str, str]:
    """The environment of a process whose wall clock is wrong; its timers go on as before."""
    # Found without importing it: its import starts the program anew under the library.
    spec = importlib.util.find_spec("libfaketime")
    origin = spec.origin if spec is not None else None
    assert origin is not None, "libfaketime is not installed: run make install"
    library = Path(origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    return {"LD_PRELOAD": str(library), "FAKETIME": f"{seconds:+}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def lag_of(log: Path) -> float:
    """Seconds between now and the last line that a process has written."""
    last = json.loads(log.read_text().splitlines()[-1])["timestamp"]
    return (datetime.fromisoformat(last) - datetime.now(UTC)).total_seconds()


async def test_s10_a_scheduler_and_a_fetcher_with_clocks_a_minute_apart_keep_the_pace(tmp_path: Path) -> None:
    env = {"LIMPET_ALLOWED_NETWORKS": "127.0.0.0/8", "LIMPET_TRACES_PER_SECOND": "100"}
    wrong = {"scheduler-1": wrong_by(30), "fetcher-1": wrong_by(-30)}
    with Platform(tmp_path / "limpet", schedulers=2, fetchers=2, env=env, own_env=wrong) as platform:
        async with (
            serve_apart("--plain", str(PAGES), log_file=tmp_path / "site.jsonl") as site,
            open_door(platform) as door,
        ):
            host = site.url.removeprefix("http://")
            await door.make_domain(host, crawl_delay_seconds=DELAY, max_concurrent_requests=10)
            await door.submit([f"{site.url}/p/{number}" for number in range(PAGES)], batch="clocks")
            await door.completed("clocks", PAGES, seconds=60)
            logs = platform.data / "logs"
            assert 20 < lag_of(logs / "scheduler-1.log") < 40, "the scheduler's clock was not wrong"
            assert -45 < lag_of(logs / "fetcher-1.log") < -20, "the fetcher's clock was not wrong"
            settled = [
                (logs / f"fetcher-{number}.log").read_text().count('"event":"page_settled"') for number in (1, 2)
            ]
            assert min(settled) > 5, "both fetchers had their share"
            starts = await door.starts(host)
            now = datetime.now(UTC).timestamp()
            assert all(now - 120 < start < now for start in starts), "starts are told on the database's clock"
            gaps = [late - early for early, late in pairwise(starts)]
            assert min(gaps) >= DELAY - ROUNDING
            assert site.log.rate(host) >= 0.8 / DELAY
