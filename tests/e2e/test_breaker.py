"""A site that refuses us is left alone by the whole cluster, probed singly, and crawled on when it recovers."""

from __future__ import annotations

import time
from itertools import pairwise

from tests.support.door import Door
from tests.support.site.plain import Plain
from tests.support.site.serving import Answer
from tests.support.waiting import until

PAGES, AT_ONCE, THRESHOLD, COOLDOWN = 150, 4, 5, 2.0


class Moody(Plain):
    """Answers as usual, or refuses everything."""

    refuses = False

    def answer(self, path: str, *, origin: str) -> Answer:
        if self.refuses and path != "/robots.txt":
            return Answer(b"<html><body>Go away.</body></html>", status=403)
        return super().answer(path, origin=origin)


async def test_s12_three_fetchers_leave_a_refusing_site_alone_and_go_on_when_it_recovers(door: Door) -> None:
    async with Moody(PAGES, latency=0.05) as site:
        await door.make_domain(
            site.host,
            crawl_delay_seconds=0,
            max_concurrent_requests=AT_ONCE,
            breaker_failures=THRESHOLD,
            breaker_cooldown_seconds=COOLDOWN,
            breaker_successes=2,
        )
        await door.submit(site.page_urls(), batch="moody")
        await door.completed("moody", 30, seconds=60)
        site.refuses, turned = True, time.monotonic()

        async def probes() -> int:
            return len(refusals(site)) - first_wave(site)

        await until(lambda: probes(), seconds=30)
        wave = first_wave(site)
        assert wave < THRESHOLD + AT_ONCE, f"{wave} requests after the site had begun to refuse"
        seen = await probes()
        await until(lambda: more_than(probes, seen + 1), seconds=30)
        # From the opening on, requests come one at a time, a cool-down apart.
        starts = refusals(site)[wave - 1 :]
        assert min(late - early for early, late in pairwise(starts)) >= COOLDOWN - 0.1
        state = await door.get(f"/api/admin/domains/{site.host}")
        assert state["breaker_state"] in ("open", "half_open")
        site.refuses = False
        await door.completed("moody", PAGES, seconds=90)
        assert (await door.get(f"/api/admin/domains/{site.host}"))["breaker_state"] == "closed"
        print(f"{wave} refused at first, then {len(starts) - 1} probes in {time.monotonic() - turned:.1f} s")


def refusals(site: Moody) -> list[float]:
    return sorted(record.started for record in site.log if record.status == 403)


def first_wave(site: Moody) -> int:
    """How many were refused before the first pause of half a cool-down."""
    starts = refusals(site)
    for number, (early, late) in enumerate(pairwise(starts), start=1):
        if late - early > COOLDOWN / 2:
            return number
    return len(starts)


async def more_than(count: object, wanted: int) -> bool:
    return bool(await count() >= wanted)  # type: ignore[operator]
