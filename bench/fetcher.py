"""`python -m bench.fetcher`: CPU per page of the fetcher's process alone, direct and through a proxy, and of Scrapy's downloader."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from bench import limpet_list, scrapy_run
from bench.pages import product_path
from bench.running import BenchError, started

WAYS = ("direct", "proxy")
FETCHER = "limpet.fetcher.main"


@dataclass(frozen=True)
class Cost:
    """CPU-ms per page."""

    fetcher: float
    scrapy: float


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench.fetcher", description=__doc__)
    options.add_argument("--pages", type=int, default=4000)
    options.add_argument("--rounds", type=int, default=1, help="interleaved; the table shows the medians")
    options.add_argument("--limit", type=float, default=300.0, help="seconds that one crawl may take")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="limpet-bench-"))
    try:
        costs = measure(pages=given.pages, rounds=given.rounds, limit=given.limit, folder=folder)
    except BenchError as error:
        print(f"The bench failed: {error}\nLogs are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    print(table(costs))
    return 0


def measure(*, pages: int, rounds: int, limit: float, folder: Path) -> dict[str, list[Cost]]:
    scrapy_run.install()
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    command = [sys.executable, "-m", "bench.site", "--pages", str(pages)]
    with started(command, log=folder / "site.log") as site:
        url = site.first_line(seconds=60)
        urls = [url + product_path(number) for number in range(pages)]
        for number in range(rounds):
            for way in WAYS:
                own = folder / f"{way}-{number}"
                own.mkdir()
                costs[way].append(_cost(urls, proxy=url if way == "proxy" else "", folder=own, limit=limit))
    return costs


def _cost(urls: list[str], *, proxy: str, folder: Path, limit: float) -> Cost:
    """The site stands in for the proxy, so that only the crawler's own part differs."""
    options = ["--download-only", *(["--proxy", proxy] if proxy else [])]
    startup = scrapy_run.startup_cpu(urls[0], folder=folder, limit=limit, options=options)
    scrapy = scrapy_run.run(urls, folder=folder, limit=limit, startup=startup, options=options)
    limpet = limpet_list.run(urls, folder=folder, limit=limit, proxy_port=urlsplit(proxy).port or 0 if proxy else 0)
    if scrapy.items != len(urls) or limpet.items != len(urls):
        raise BenchError(f"of {len(urls)} pages Scrapy had {scrapy.items} and Limpet {limpet.items}")
    return Cost(limpet.by_command[FETCHER] / len(urls) * 1000, scrapy.cpu_ms)


def table(costs: dict[str, list[Cost]]) -> str:
    lines = [f"{'CPU-ms/page':<12}{'fetcher':>10}{'Scrapy':>10}{'ratio':>8}"]
    for way, found in costs.items():
        fetcher, scrapy = (median(getattr(cost, name) for cost in found) for name in ("fetcher", "scrapy"))
        lines.append(f"{way:<12}{fetcher:>10.3f}{scrapy:>10.3f}{fetcher / scrapy:>8.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
