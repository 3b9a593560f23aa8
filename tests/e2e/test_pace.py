"""Two schedulers and three fetchers keep every domain's pace, as sent and as received."""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path

from tests.support.door import Door
from tests.support.site import Apart, RequestLog, serve_apart

RECEIVED_TOLERANCE = 0.030
# One clock reading is in microseconds.
ROUNDING = 2e-6
PACED_SECONDS = 20.0
# `make pace` asks for thousands: one short gap in a thousand can only be seen in as many.
ONE_DOMAIN_PAGES = int(os.environ.get("PACE_PAGES", "100"))


def urls_of(site: Apart, at: int, count: int) -> list[str]:
    return [f"{site.urls[at]}/p/{number}" for number in range(count)]


def host_of(url: str) -> str:
    return url.removeprefix("http://")


def gaps_of(starts: list[float]) -> list[float]:
    return [late - early for early, late in pairwise(starts)]


def short_gaps(log: RequestLog, delays: dict[str, float]) -> list[float]:
    """The gaps in the site's log that are short by over the tolerance; accept lag may bunch one in a thousand."""
    return [
        gap for host, delay in delays.items() for gap in log.short_gaps(delay, tolerance=RECEIVED_TOLERANCE, host=host)
    ]


async def test_s10_one_domain_keeps_its_delay_among_many_schedulers_and_fetchers(door: Door, tmp_path: Path) -> None:
    delay, count = 0.2, ONE_DOMAIN_PAGES
    async with serve_apart("--plain", str(count), log_file=tmp_path / "site.jsonl") as site:
        host = host_of(site.url)
        await door.make_domain(host, crawl_delay_seconds=delay, max_concurrent_requests=10)
        await door.submit(urls_of(site, 0, count), batch="one-domain")
        await door.completed("one-domain", count, seconds=60 + count * delay * 1.5)
        sent = gaps_of(await door.starts(host))
        log = site.log
    short = short_gaps(log, {host: delay})
    print(
        f"{len(sent)} gaps, shortest sent {min(sent):.6f} s; {len(short)} of {len(log)} short in the site's log: {short}"
    )
    assert len(sent) == count, "robots.txt and every page, one request each"
    assert min(sent) >= delay - ROUNDING
    assert len(short) <= max(1, len(log) // 1000)
    assert log.rate(host) >= 0.8 / delay


async def test_s10_fifty_domains_keep_theirs_and_each_reaches_its_rate(door: Door, tmp_path: Path) -> None:
    delays = [round(0.15 + 0.05 * number, 2) for number in range(50)]
    counts = [max(6, int(PACED_SECONDS / (1.12 * delay))) for delay in delays]
    async with serve_apart("--plain", str(max(counts)), "--ports", "50", log_file=tmp_path / "site.jsonl") as site:
        hosts = [host_of(url) for url in site.urls]
        await asyncio.gather(
            *(
                door.make_domain(host, crawl_delay_seconds=delay, max_concurrent_requests=5)
                for host, delay in zip(hosts, delays, strict=True)
            )
        )
        wanted = [url for at, count in enumerate(counts) for url in urls_of(site, at, count)]
        await door.submit(wanted, batch="fifty-domains")
        await door.completed("fifty-domains", len(wanted), seconds=150)
        log = site.log
        for host, delay in zip(hosts, delays, strict=True):
            sent = gaps_of(await door.starts(host))
            assert len(sent) == counts[hosts.index(host)], host
            assert min(sent) >= delay - ROUNDING, host
            assert log.rate(host) >= 0.8 / delay, f"{host}: {log.rate(host):.2f}/s of {1 / delay:.2f}/s"
        assert len(short_gaps(log, dict(zip(hosts, delays, strict=True)))) <= max(1, len(log) // 1000)


async def test_s10_a_domain_never_has_more_requests_open_than_it_may(door: Door, tmp_path: Path) -> None:
    async with serve_apart("--plain", "120", "--delay", "0.1", log_file=tmp_path / "site.jsonl") as site:
        await door.make_domain(host_of(site.url), crawl_delay_seconds=0, max_concurrent_requests=3)
        await door.submit(urls_of(site, 0, 120), batch="narrow")
        await door.completed("narrow", 120, seconds=60)
        assert site.log.max_concurrency() == 3
        assert len(site.log.of(prefix="/p/")) == 120
