"""The platform's front door as the tests use it: patient while a service is being killed, plain otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx

from limpet.cli.local.platform import Platform
from tests.support.waiting import until

PASSING = (502, 503, 504)
PER_POST = 1000


class Door:
    def __init__(self, client: httpx.AsyncClient, platform: Platform) -> None:
        self.client = client
        self.platform = platform

    async def send(self, method: str, path: str, *, body: object = None, **options: Any) -> httpx.Response:
        """Again while somebody is away for a moment."""

        async def once() -> httpx.Response | None:
            try:
                answer = await self.client.request(method, path, json=body, **options)
            except httpx.TransportError:
                return None
            return None if answer.status_code in PASSING else answer

        # A response is true only where it is a success: the wait is for any answer.
        return (await until(lambda: _boxed(once()), seconds=60, every=0.2))[0]

    async def get(self, path: str) -> Any:
        answer = await self.send("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def make_domain(self, host: str, **settings: object) -> None:
        answer = await self.send("POST", "/api/admin/domains", body={"name": host, **settings})
        assert answer.status_code in (201, 409), answer.text

    async def submit(self, urls: Iterable[str], *, batch: str, **settings: object) -> None:
        answer = await self.send("POST", "/api/admin/batches", body={"name": batch, **settings})
        assert answer.status_code in (201, 409), answer.text
        wanted = list(urls)
        for start in range(0, len(wanted), PER_POST):
            tasks = [{"url": url} for url in wanted[start : start + PER_POST]]
            answer = await self.send("POST", "/api/admin/tasks/bulk", body={"tasks": tasks, "batch": batch})
            assert answer.status_code == 200, answer.text
            assert answer.json()["refused"] == []

    async def counts(self, batch: str) -> dict[str, int]:
        counts: dict[str, int] = (await self.get(f"/api/admin/batches/{batch}"))["tasks"]
        return counts

    async def completed(self, batch: str, count: int, *, seconds: float) -> None:
        """Wait until so many tasks of the batch are completed, and fail as soon as one has failed."""
        counts: dict[str, int] = {}

        async def enough() -> bool:
            nonlocal counts
            counts = await self.counts(batch)
            assert not counts["failed"], await self.get(f"/api/admin/tasks?batch={batch}&status=failed")
            return counts["completed"] >= count

        try:
            await until(enough, seconds=seconds, every=0.2)
        except TimeoutError:
            raise AssertionError(f"not {count} completed after {seconds} s: {counts}") from None

    async def rows(self, service: str, statement: str, *values: object) -> list[Any]:
        """What a service's own database says."""
        conn = await asyncpg.connect(self.platform.runtime.dsns[f"limpet_{service}"])
        try:
            return await conn.fetch(statement, *values)
        finally:
            await conn.close()

    async def starts(self, host: str) -> list[float]:
        """Request starts of a domain as the fetchers sent them, in seconds of the scheduler database's clock."""
        rows = await self.rows(
            "scheduler",
            """SELECT extract(epoch FROM a.started_at)::float8 AS at
                 FROM attempts a JOIN crawl_tasks t USING (task_id) JOIN domains d USING (domain_id)
                WHERE d.name = $1 AND a.phase = 'fetch' AND a.started_at IS NOT NULL ORDER BY a.started_at""",
            host,
        )
        return [row["at"] for row in rows]


async def _boxed(answer: Any) -> list[httpx.Response]:
    found = await answer
    return [found] if found is not None else []


@asynccontextmanager
async def open_door(platform: Platform) -> AsyncIterator[Door]:
    headers = {"Authorization": f"Bearer {platform.key}"}
    async with httpx.AsyncClient(base_url=platform.url, headers=headers, timeout=15, trust_env=False) as client:
        yield Door(client, platform)
