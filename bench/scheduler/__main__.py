"""`make bench-scheduler`: what claiming costs by the size of the queue, how fast permits go and come back, who waits."""

from __future__ import annotations

import argparse
import sys

import uvloop

from bench.scheduler import claim, fairness, rates, runs
from bench.scheduler.server import server
from limpet.kit.log import setup_logging

PARTS = ("claim", "rates", "fairness")
ROWS = (10_000, 1_000_000, 5_000_000)
QUICK_ROWS = ROWS[:2]
DOMAINS = (1, 1_000, 100_000)
CROWD = 1_000_000


async def bench(given: argparse.Namespace) -> None:
    parts = [given.only] if given.only else PARTS
    with server() as own:
        if "claim" in parts:
            rows = QUICK_ROWS if given.quick else ROWS
            cells = await claim.measure(own, rows=rows, domains=DOMAINS, explain=given.explain)
            print(claim.table(cells), flush=True)
        if "rates" in parts:
            print("\n" + rates.table(await rates.measure(own, tasks=given.tasks)), flush=True)
        if "fairness" in parts:
            races = await fairness.measure(own, crowd=CROWD)
            print("\n" + fairness.table(races, crowd=CROWD), flush=True)
        if given.only == "runs":
            print("\n" + runs.table(await runs.measure(own, urls=given.urls)), flush=True)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench.scheduler", description=__doc__)
    options.add_argument("--quick", action="store_true", help="leave out 5 million rows")
    options.add_argument("--only", choices=(*PARTS, "runs"), help="one of the tables")
    options.add_argument("--tasks", type=int, default=100_000, help="tasks that are granted and settled for the rates")
    options.add_argument("--urls", type=int, default=500_000, help="URLs of the run in the table of runs")
    options.add_argument("--explain", action="store_true", help="print EXPLAIN (ANALYZE, BUFFERS) of every statement")
    given = options.parse_args()
    setup_logging("bench", "WARNING")
    uvloop.run(bench(given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
