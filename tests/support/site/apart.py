"""Run a site as a process of its own, so that a busy test cannot blur the times in its log."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.site.requests import RequestLog

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Apart:
    """A site in another process: its origins without a slash at the end, and its log as written so far."""

    urls: list[str]
    log_file: Path

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def log(self) -> RequestLog:
        return RequestLog.load(self.log_file)


@asynccontextmanager
async def serve_apart(*options: str, log_file: Path) -> AsyncIterator[Apart]:
    """Serve with the options of `python -m tests.support.site`, for example "--plain", "500", "--ports", "50"."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.site", "--port", "0", "--log", str(log_file), *options),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Apart(await asyncio.wait_for(_addresses(process), timeout=20), log_file)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _addresses(process: asyncio.subprocess.Process) -> list[str]:
    assert process.stdout is not None
    urls = []
    while (line := (await process.stdout.readline()).decode().strip()).startswith("http"):
        urls.append(line.rstrip("/"))
    if not urls:
        raise RuntimeError("the site did not start")
    return urls
