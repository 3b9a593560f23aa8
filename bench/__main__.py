"""`make bench`: crawl one generated site with Limpet and with Scrapy in the same run and compare what it cost."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import urllib.request
from dataclasses import asdict, replace
from pathlib import Path

from bench import limpet_list, scrapy_run
from bench.figures import Figures, table
from bench.pages import list_paths, product_path
from bench.running import ROOT, BenchError, started

CRAWLERS = ("scrapy", "limpet")


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    options.add_argument("--pages", type=int, default=int(os.environ.get("BENCH_PAGES", "6000")))
    options.add_argument("--rounds", type=int, default=1, help="interleaved; the table shows the medians")
    options.add_argument("--only", choices=CRAWLERS, help="leave the other one out")
    options.add_argument("--limit", type=float, default=300.0, help="seconds that one crawl may take")
    options.add_argument("--profile", action="store_true", help="show which of Limpet's commands used the CPU")
    options.add_argument(
        "--follow", action="store_true", help="from the front page by following links, not over a list"
    )
    options.add_argument("--keep", action="store_true", help="keep the folder with logs and data")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="limpet-bench-"))
    try:
        rounds = measure(given, folder=folder)
    except BenchError as error:
        print(f"The bench failed: {error}\nLogs are in {folder}", file=sys.stderr)
        return 1
    if not given.keep:
        shutil.rmtree(folder)
    return report(rounds, profile=given.profile)


def measure(given: argparse.Namespace, *, folder: Path) -> dict[str, list[Figures]]:
    crawlers = [name for name in CRAWLERS if given.only in (None, name)]
    if "scrapy" in crawlers:
        scrapy_run.install()
    rounds: dict[str, list[Figures]] = {name: [] for name in crawlers}
    command = [sys.executable, "-m", "bench.site", "--pages", str(given.pages)]
    with started(command, log=folder / "site.log") as site:
        url = site.first_line(seconds=60)
        urls = [url + product_path(number) for number in range(given.pages)]
        lists = [url + path for path in list_paths()] if given.follow else []
        print(f"Site: {given.pages + len(lists)} pages at {url}", flush=True)
        startup = 0.0
        if "scrapy" in crawlers:
            startup = scrapy_run.startup_cpu(urls[0], folder=folder, limit=given.limit)
        for number in range(given.rounds):
            for crawler in crawlers:
                run_folder = folder / f"{crawler}-{number}"
                run_folder.mkdir()
                _count(url, "/_reset")
                if crawler == "scrapy":
                    run = scrapy_run.run(urls, folder=run_folder, limit=given.limit, startup=startup, lists=lists)
                else:
                    run = limpet_list.run(urls, folder=run_folder, limit=given.limit, lists=lists)
                run = replace(run, fetched=_count(url, "/_count"))
                rounds[crawler].append(run)
                print(
                    f"Round {number + 1}, {crawler}: {run.rate:.0f} pages/s, {run.cpu_ms:.3f} CPU-ms/page", flush=True
                )
    return rounds


def report(rounds: dict[str, list[Figures]], *, profile: bool) -> int:
    print("\n" + table(rounds))
    if profile and "limpet" in rounds:
        run = rounds["limpet"][-1]
        print("\nLimpet's CPU-ms per page by command:")
        for name, used in sorted(run.by_command.items(), key=lambda entry: -entry[1]):
            print(f"  {used / run.pages * 1000:8.3f}  {name}")
    out = ROOT / "out" / "bench.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({name: [asdict(run) for run in runs] for name, runs in rounds.items()}, indent=2))
    incomplete = [name for name, runs in rounds.items() if not all(run.complete for run in runs)]
    if incomplete:
        print(f"\nNot every page was fetched or made into an item by: {', '.join(incomplete)}", file=sys.stderr)
    return 1 if incomplete else 0


def _count(url: str, path: str) -> int:
    with urllib.request.urlopen(url + path, timeout=10) as response:
        return int(json.load(response)["pages"])


if __name__ == "__main__":
    sys.exit(main())
