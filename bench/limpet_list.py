"""Run the whole platform over the list, through its front door, and measure every process of it."""

from __future__ import annotations

import json
import secrets
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figures
from bench.measure import Peak, cpu_by_command, cpu_seconds
from bench.running import ROOT, BenchError, Running, started

READY_SECONDS = 120.0
PER_POST = 1000
BATCH = "bench"
UNLIMITED = {"max_requests_per_hour": None, "max_concurrent_leases": 1000}


def run(urls: list[str], *, folder: Path, limit: float, proxy_port: int = 0, lists: Sequence[str] = ()) -> Figures:
    """Start a platform with an empty data folder, crawl, stop. `fetched` is left to whoever asks the site.

    With `proxy_port` every page comes through the proxy that listens there. With `lists`, the pages without an item, it crawls
    from the first of them by following links.
    """
    count = len(urls) + len(lists)
    port, key = _free_port(), secrets.token_urlsafe(24)
    command = [str(ROOT / ".venv/bin/limpet"), "up", "--data", str(folder / "limpet"), "--port", str(port)]
    env = {"LIMPET_API_KEY": key, "LIMPET_ALLOWED_NETWORKS": "127.0.0.0/8"}
    with started(command, log=folder / "limpet.log", env=env) as platform:
        door = Door(f"http://127.0.0.1:{port}", key=key)
        _wait_until_ready(door, platform)
        # Everything up to here is start-up: servers, migrations, pools, the first beats.
        startup = cpu_seconds(platform.pid, mark=platform.mark)
        by_command = cpu_by_command(platform.pid, mark=platform.mark)
        with Peak(platform.pid, mark=platform.mark) as peak:
            began = time.monotonic()
            _submit(door, list(lists[:1]) or urls, proxy_port=proxy_port, follow=bool(lists))
            _wait_until_done(door, platform, count=count, deadline=began + limit)
            seconds = time.monotonic() - began
            cpu = cpu_seconds(platform.pid, mark=platform.mark) - startup
            after = cpu_by_command(platform.pid, mark=platform.mark)
        items = door.count_items(f"/api/items?batch={BATCH}&format=jsonl")
    spent = {name: used - by_command.get(name, 0.0) for name, used in after.items()}
    return Figures(
        pages=count,
        seconds=seconds,
        cpu=cpu,
        startup_cpu=startup,
        peak_mib=peak.mib,
        fetched=0,
        items=items,
        by_command=spent,
        without_item=len(lists),
    )


def _submit(door: Door, urls: list[str], *, proxy_port: int, follow: bool) -> None:
    domain = {
        "name": urls[0].split("/")[2],
        "crawl_delay_seconds": 0,
        "max_concurrent_requests": 128,
        "parser_name": "product",
        "proxy_policy": "required" if proxy_port else "none",
    }
    if proxy_port:
        door.post("/api/admin/proxies", {"protocol": "http", "host": "127.0.0.1", "port": proxy_port} | UNLIMITED)
    door.post("/api/admin/domains", domain)
    door.post("/api/admin/batches", {"name": BATCH, "follow": follow})
    for at in range(0, len(urls), PER_POST):
        tasks = [{"url": url, "is_recurring": False} for url in urls[at : at + PER_POST]]
        answer = door.post("/api/admin/tasks/bulk", {"tasks": tasks, "batch": BATCH})
        if answer["created"] != len(tasks):
            raise BenchError(f"the platform took {answer['created']} of {len(tasks)} URLs: {str(answer)[:500]}")


def _wait_until_done(door: Door, platform: Running, *, count: int, deadline: float) -> None:
    while True:
        states = door.get(f"/api/admin/batches/{BATCH}")["tasks"]
        if states.get("completed", 0) == count:
            return
        if states.get("failed", 0):
            raise BenchError(f"{states['failed']} pages failed: {states}")
        platform.check(deadline=deadline, doing=f"crawling {states}")
        time.sleep(0.25)


def _wait_until_ready(door: Door, platform: Running) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not ("ready at" in platform.output() and door.answers("/health")):
        platform.check(deadline=deadline, doing="starting")
        time.sleep(0.1)


class Door:
    """The platform's front door, with the key."""

    def __init__(self, url: str, *, key: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        return json.loads(self._ask(path))

    def post(self, path: str, body: object) -> Any:
        return json.loads(self._ask(path, body=json.dumps(body).encode()))

    def count_items(self, path: str) -> int:
        """Things that have a price; what else a page is makes no item here."""
        return sum(b'"price"' in line for line in self._ask(path).splitlines())

    def answers(self, path: str) -> bool:
        try:
            self._ask(path)
        except (BenchError, OSError):
            return False
        return True

    def _ask(self, path: str, *, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self._url + path, data=body, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer: bytes = response.read()
                return answer
        except urllib.error.HTTPError as error:
            raise BenchError(f"{path}: {error.code} {error.read()[:500].decode(errors='replace')}") from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
