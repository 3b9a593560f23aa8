"""How many tasks are in each status, counted no more often than it is cheap."""

from __future__ import annotations

import time

import asyncpg

from limpet.kit.pg import LOST, Pool
from limpet.scheduler.metrics import DOMAINS, TASKS
from limpet.scheduler.store.domains import count_by_state
from limpet.scheduler.store.tasks import count_by_status

# Counting may take up to this share of the time.
SHARE = 0.01


class Census:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._counts: dict[str, int] = {}
        self._next = 0.0

    async def count(self) -> dict[str, int]:
        """The last census, or a new one when its time has come."""
        started = time.monotonic()
        if started >= self._next:
            try:
                async with self._pool.acquire() as conn:
                    self._counts = await count_by_status(conn)
                    domains = await count_by_state(conn)
            except (*LOST, asyncpg.PostgresError):
                return self._counts
            self._next = time.monotonic() + (time.monotonic() - started) / SHARE
            for status, count in self._counts.items():
                TASKS.labels(status).set(count)
            for state, count in domains.items():
                DOMAINS.labels(state).set(count)
        return self._counts
