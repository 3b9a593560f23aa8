"""Crawl sites of every shape with a whole platform and say what was found: `python -m tests.support.shapes` prints the table."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from limpet.cli.local.platform import Platform
from tests.support.door import Door, open_door
from tests.support.site.shapes import Shape, ShapeSite, shapes
from tests.support.waiting import until

SECONDS = 90.0
ENV = {
    "LIMPET_ALLOWED_NETWORKS": "127.0.0.0/8",
    "LIMPET_RETRY_BASE_SECONDS": "0.5",
    "LIMPET_BLOCK_BASE_SECONDS": "0.5",
    "LIMPET_DISCOVER_TICK_SECONDS": "0.5",
}


@dataclass(frozen=True)
class Crawled:
    shape: Shape
    missing: frozenset[str]
    requests: int
    # What was still under way when we stopped waiting.
    unfinished: str = ""

    @property
    def exists(self) -> int:
        return len(self.shape.exists)

    @property
    def is_good(self) -> bool:
        return not self.missing and not self.unfinished and self.requests <= self.shape.most


async def crawl_all(door: Door, wanted: Sequence[Shape]) -> list[Crawled]:
    """All of them at once, each on a host of its own."""
    async with AsyncExitStack() as stack:
        sites = [await stack.enter_async_context(ShapeSite(shape)) for shape in wanted]
        return list(await asyncio.gather(*(crawl(door, site) for site in sites)))


async def crawl(door: Door, site: ShapeSite) -> Crawled:
    shape, batch = site.shape, f"shape-{site.host}"
    # A block is told to the list, not to the domain: its breaker has tests of its own.
    await door.make_domain(
        site.host, crawl_delay_seconds=0, max_concurrent_requests=8, breaker_failures=100, breaker_rate=1
    )
    await door.submit([site.url + shape.start], batch=batch, follow=True, **shape.batch)
    unfinished = ""
    try:
        await ended(door, batch)
        if shape.discover != "off":
            answer = await door.send("PATCH", f"/api/admin/domains/{site.host}", body={"discover": shape.discover})
            assert answer.status_code == 200, answer.text
            await quiet(door, site)
    except TimeoutError:
        unfinished = str(await under_way(door, site))
    return Crawled(shape, frozenset(shape.exists - site.found()), len(site.log), unfinished)


async def under_way(door: Door, site: ShapeSite) -> list[tuple[str, ...]]:
    rows = await door.rows(
        "scheduler",
        "SELECT t.kind, t.status, t.url, t.error_message FROM crawl_tasks t JOIN domains d USING (domain_id)"
        " WHERE d.name = $1 AND t.resting IS NULL ORDER BY task_id LIMIT 5",
        site.host,
    )
    return [tuple(row) for row in rows] or [("nothing",)]


async def ended(door: Door, batch: str) -> None:
    async def is_over() -> bool:
        seen = await door.get(f"/api/admin/batches/{batch}")
        return seen["open_tasks"] == 0 and seen["ended_at"] is not None

    await until(is_over, seconds=SECONDS, every=0.2)


async def quiet(door: Door, site: ShapeSite) -> None:
    """Until the domain was looked at, every probe is judged, and what came of them is done."""

    async def is_over() -> bool:
        (row,) = await door.rows(
            "scheduler",
            """SELECT d.discovered_at IS NOT NULL AS looked,
                      (SELECT count(*) FROM probes p WHERE p.domain_id = d.domain_id AND NOT p.is_canary
                          AND p.state IN ('asked', 'answered')) AS unjudged,
                      (SELECT count(*) FROM crawl_tasks t WHERE t.domain_id = d.domain_id AND t.resting IS NULL) AS under_way
                 FROM domains d WHERE d.name = $1""",
            site.host,
        )
        return bool(row["looked"]) and not row["unjudged"] and not row["under_way"]

    await until(is_over, seconds=SECONDS, every=0.2)


def table(crawled: Sequence[Crawled]) -> str:
    lines = [f"{'shape':<28} {'exist':>6} {'found':>6} {'requests':>9} {'at most':>8}"]
    for one in crawled:
        found = one.exists - len(one.missing)
        why = one.unfinished or ", ".join(sorted(one.missing)[:3]) or "too many requests"
        mark = "" if one.is_good else f"   <-- {why}"
        lines.append(f"{one.shape.name:<28} {one.exists:>6} {found:>6} {one.requests:>9} {one.shape.most:>8}{mark}")
    return "\n".join(lines)


async def main() -> int:
    with tempfile.TemporaryDirectory(prefix="limpet-shapes-") as folder, Platform(Path(folder), env=ENV) as platform:
        async with open_door(platform) as door:
            crawled = await crawl_all(door, shapes())
    print(table(crawled))
    return 0 if all(one.is_good for one in crawled) else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
