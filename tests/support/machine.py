"""State machines that act on a real scheduler's database: a loop, a pool and a bus for all examples of one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg
import httpx
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from limpet.cli.local.postgres import Postgres
from limpet.kit.bus import Bus, open_bus
from limpet.kit.migrate import migrate
from limpet.kit.pg import Pool, open_pool
from limpet.scheduler.main import PLANS
from tests.support.scheduler_api import scheduler_api

T = TypeVar("T")


class Machine(RuleBasedStateMachine):
    """Set before it runs."""

    runner: asyncio.Runner
    pool: Pool
    bus: Bus

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        async def once() -> httpx.Response:
            async with scheduler_api(self.pool, self.bus) as client:
                return await client.request(method, path, json=body)

        answer = self.run(once())
        assert answer.status_code < 500, answer.text
        return answer


async def _fresh(postgres: Postgres) -> str:
    """The address of a migrated database; the server goes when the tests have run, and the database with it."""
    name = f"property_{uuid4().hex}"
    conn = await asyncpg.connect(postgres.dsn("postgres"))
    await conn.execute(f'CREATE DATABASE "{name}"')
    await conn.close()
    await migrate(postgres.dsn(name), "limpet.scheduler")
    return postgres.dsn(name)


def run_machine(machine: type[Machine], postgres: Postgres, nats_url: str, *, examples: int, steps: int) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            machine.runner = runner
            dsn = runner.run(_fresh(postgres))
            machine.pool = runner.run(stack.enter_async_context(open_pool(dsn, settings=PLANS)))
            machine.bus = runner.run(stack.enter_async_context(open_bus(nats_url, name="property")))
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(stack.aclose())
