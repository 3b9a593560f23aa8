"""`make bench-products`: a million products, asked for by text and by price over the API: how long an answer takes."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from random import Random

from bench.products.fill import fill
from bench.products.questions import QUESTIONS
from bench.scheduler.server import Server, server
from limpet.kit.log import setup_logging
from limpet.kit.migrate import migrate
from limpet.kit.pg import open_pool
from tests.support.parser_api import parser_api

GOAL_MS = 50.0
WARM = 20


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def measure(own: Server, *, count: int, times: int, limit: int) -> dict[str, list[float]]:
    own.postgres.create_databases(("products",))
    dsn = own.postgres.dsn("products")
    await migrate(dsn, "limpet.parser")
    taken: dict[str, list[float]] = {}
    async with open_pool(dsn) as pool:
        begun = time.monotonic()
        await fill(pool, count)
        print(f"{count:,} products made in {time.monotonic() - begun:.0f} s", flush=True)
        async with parser_api(pool) as api:
            for name, question in QUESTIONS.items():
                rng = Random(name)
                for number in range(WARM + times):
                    asked = {"limit": limit, **question(rng, count)}
                    begun = time.perf_counter()
                    await api.ok("GET", "/api/products", params=asked)
                    if number >= WARM:
                        taken.setdefault(name, []).append(1000 * (time.perf_counter() - begun))
    return taken


def table(taken: dict[str, list[float]]) -> str:
    lines = [f"{'':<36} {'p50 ms':>8} {'p95 ms':>8} {'most':>8}"]
    for name, values in taken.items():
        lines.append(f"{name:<36} {percentile(values, 0.5):>8.1f} {percentile(values, 0.95):>8.1f} {max(values):>8.1f}")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench.products", description=__doc__)
    options.add_argument("--products", type=int, default=1_000_000)
    options.add_argument("--times", type=int, default=100, help="questions of each kind")
    options.add_argument("--limit", type=int, default=20, help="products in an answer")
    given = options.parse_args()
    setup_logging("bench", "WARNING")
    with server() as own:
        taken = asyncio.run(measure(own, count=given.products, times=given.times, limit=given.limit))
    print(table(taken), flush=True)
    slow = [name for name, values in taken.items() if percentile(values, 0.95) >= GOAL_MS]
    print(f"over {GOAL_MS:.0f} ms at p95: {', '.join(slow) or 'none'}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
