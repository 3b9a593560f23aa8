"""Run Scrapy over the list from its own environment, made on demand, and measure it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figures
from bench.measure import Peak
from bench.running import ROOT, started

VENV = ROOT / ".venv-bench"
LOCK = ROOT / "bench" / "requirements.lock"


def install() -> None:
    """Make the environment if it is not there or not of this lock."""
    stamp, wanted = VENV / "lock.sha256", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("Installing Scrapy into .venv-bench ...", flush=True)
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True, timeout=120)
    subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True, timeout=600)
    stamp.write_text(wanted)


def startup_cpu(url: str, *, folder: Path, limit: float, options: Sequence[str] = ()) -> float:
    """What Scrapy takes before it does anything: a run over one URL."""
    cpu, _, _, _ = _crawl([url], folder=folder, limit=limit, options=options)
    return cpu


def run(
    urls: list[str],
    *,
    folder: Path,
    limit: float,
    startup: float,
    options: Sequence[str] = (),
    lists: Sequence[str] = (),
) -> Figures:
    """The whole list; with `lists`, the pages without an item, from the first of them by following links.

    `fetched` is left to whoever asks the site.
    """
    starts, told = (list(lists[:1]), [*options, "--follow"]) if lists else (urls, options)
    cpu, seconds, peak, items = _crawl(starts, folder=folder, limit=limit, options=told)
    return Figures(
        pages=len(urls) + len(lists),
        seconds=seconds,
        cpu=cpu - startup,
        startup_cpu=startup,
        peak_mib=peak,
        fetched=0,
        items=items,
        without_item=len(lists),
    )


def _crawl(urls: list[str], *, folder: Path, limit: float, options: Sequence[str]) -> tuple[float, float, float, int]:
    listed, out = folder / "urls.txt", folder / "scrapy.jsonl"
    listed.write_text("\n".join(urls))
    command = [str(VENV / "bin" / "python"), str(ROOT / "bench" / "scrapy_list.py"), str(listed), str(out), *options]
    with started(command, log=folder / "scrapy.log") as scrapy:
        with Peak(scrapy.pid, mark=scrapy.mark) as peak:
            cpu = scrapy.wait(seconds=limit)
        seconds = float(json.loads(scrapy.output().splitlines()[-1])["seconds"])
    with out.open() as items:
        return cpu, seconds, peak.mib, sum(1 for _ in items)
