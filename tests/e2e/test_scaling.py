"""One fetcher, six, and one again during a crawl: nothing lost, nothing twice, no pace broken. `make scaling`: 5,000 pages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from limpet.cli.local.platform import Platform
from tests.e2e.conftest import QUICK
from tests.support.attempts import fetch_outcomes, nothing_is_out
from tests.support.door import open_door
from tests.support.servers import free_port
from tests.support.site import serve_apart

PAGES = int(os.environ.get("SCALING_PAGES", "1000"))
# Fifty requests a second: what the site's log says must not hang on how many processes share a processor.
HOSTS, DELAY = 10, 0.2
MORE = 5
RECEIVED_TOLERANCE = 0.030
# One clock reading is in microseconds.
ROUNDING = 2e-6


def start_fetcher(platform: Platform, number: int, log: Path) -> subprocess.Popen[bytes]:
    """One more like the first, with a name and a port of its own, as a deployment would."""
    pid = platform.pids["fetcher-1"]
    raw = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    env = dict(entry.split("=", 1) for entry in raw if "=" in entry)
    env |= {"LIMPET_WORKER_ID": f"fetcher-{number}", "LIMPET_OPS_PORT": str(free_port())}
    with log.open("wb") as file:
        return subprocess.Popen([sys.executable, "-m", "limpet.fetcher.main"], env=env, stdout=file, stderr=file)


async def test_f1_fetchers_come_and_go_during_a_crawl(tmp_path: Path) -> None:
    with Platform(tmp_path / "limpet", fetchers=1, env=QUICK) as platform, ExitStack() as stack:
        async with (
            serve_apart(
                "--plain", str(PAGES // HOSTS), "--ports", str(HOSTS), "--delay", "0.05",
                log_file=tmp_path / "site.jsonl",
            ) as site,
            open_door(platform) as door,
        ):  # fmt: skip
            hosts = [url.removeprefix("http://") for url in site.urls]
            for host in hosts:
                await door.make_domain(host, crawl_delay_seconds=DELAY, max_concurrent_requests=5)
            urls = [f"{url}/p/{number}" for number in range(PAGES // HOSTS) for url in site.urls]
            await door.submit(urls, batch="scaled")
            others = []
            for number in range(MORE):
                await door.completed("scaled", PAGES * (number + 1) // 12, seconds=60 + PAGES * DELAY / HOSTS * 2)
                other = start_fetcher(platform, number + 2, tmp_path / f"fetcher-{number + 2}.log")
                stack.callback(other.wait)
                stack.callback(other.kill)
                others.append(other)
            for number, other in enumerate(others):
                await door.completed("scaled", PAGES * (number + 6) // 12, seconds=60 + PAGES * DELAY / HOSTS * 2)
                assert other.poll() is None
                os.kill(other.pid, signal.SIGTERM)
            await door.completed("scaled", PAGES, seconds=60 + PAGES * DELAY / HOSTS * 2)
            codes = [other.wait(timeout=20) for other in others]
            outcomes = await fetch_outcomes(door, "scaled")
            await nothing_is_out(door)
            sent = [late - early for host in hosts for early, late in pairwise(await door.starts(host))]
            log = site.log
    asked = Counter((record.host, record.path) for record in log.of(prefix="/p/"))
    short = [gap for host in hosts for gap in log.short_gaps(DELAY, tolerance=RECEIVED_TOLERANCE, host=host)]
    again = sum(count - 1 for count in asked.values())
    print(f"{dict(outcomes)}; {again} pages twice; {len(short)} of {len(log)} gaps short; sent {min(sent):.6f}")
    assert codes == [0] * MORE
    assert len(asked) == PAGES
    assert (outcomes["lost"], outcomes["fetched"], again) == (0, PAGES, 0)
    assert min(sent) >= DELAY - ROUNDING
    assert len(short) <= max(1, len(log) // 1000), short
