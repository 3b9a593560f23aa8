"""`python -m tests.support.site`: the shop, or a plain site, as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import uvloop

from tests.support.site.plain import Plain
from tests.support.site.serving import Site
from tests.support.site.shop import Shop


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.support.site", description=__doc__)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=8765, help="0 takes a free one (default 8765)")
    options.add_argument("--log", type=Path, help="append every request to this file, one JSON object a line")
    options.add_argument("--products", type=int, default=60)
    options.add_argument("--delay", type=float, default=0.0, help="seconds that every page takes")
    options.add_argument("--plain", type=int, metavar="PAGES", help="serve numbered pages instead of the shop")
    options.add_argument("--ports", type=int, default=1, help="with --plain: that many ports, one host each")
    options.add_argument("--size", type=int, default=4096, help="with --plain: bytes per page")
    given = options.parse_args()
    with suppress(PermissionError):
        # Its log judges others: a site that waits for a processor would see two requests arrive at once.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    uvloop.run(_serve(_site(given), log=given.log))


def _site(given: argparse.Namespace) -> Site:
    where = {"host": given.host, "port": given.port, "log_file": given.log}
    if given.plain is not None:
        return Plain(given.plain, ports=given.ports, size=given.size, latency=given.delay, **where)
    return Shop(given.products, delay=given.delay, **where)


async def _serve(site: Site, *, log: Path | None) -> None:
    stop = asyncio.Event()
    for kind in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(kind, stop.set)
    async with site:
        # Other processes read these lines: one address a line, in the order of the ports.
        for url in site.urls:
            print(url + "/", flush=True)
        print(f"Serving; Ctrl-C stops it.{f' Requests go to {log}.' if log else ''}", flush=True)
        await stop.wait()


if __name__ == "__main__":
    main()
