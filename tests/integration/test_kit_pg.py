"""The pool and a database that comes late, goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote
from uuid import uuid4

import asyncpg
import pytest

from limpet.cli.local.postgres import SUPERUSER, Postgres
from limpet.kit.ops import Readiness
from limpet.kit.pg import LOST, open_pool, watch_pool
from tests.support.parts import running
from tests.support.relay import Relay
from tests.support.waiting import until


@pytest.fixture
async def relay(postgres: Postgres) -> AsyncIterator[Relay]:
    relay = Relay(postgres.port)
    yield relay
    await relay.close()


def dsn_of(relay: Relay, postgres: Postgres, database: str = "postgres") -> str:
    return f"postgresql://{SUPERUSER}:{quote(postgres.password)}@127.0.0.1:{relay.port}/{database}"


async def away(readiness: Readiness) -> str:
    async def said() -> str:
        return readiness.waiting_for.get("postgresql", "")

    return await until(said)


async def back(readiness: Readiness) -> None:
    async def fine() -> bool:
        return "postgresql" not in readiness.waiting_for

    await until(fine)


async def test_a_pool_waits_for_its_database_and_says_so(postgres: Postgres, relay: Relay) -> None:
    readiness, answer = Readiness(), asyncio.Queue[int]()

    async def process() -> None:
        async with open_pool(dsn_of(relay, postgres), readiness=readiness) as pool:
            await answer.put(await pool.fetchval("SELECT 7"))

    async with running(process()):
        why = await away(readiness)
        assert "refused" in why.lower() or "connect call failed" in why.lower()
        assert answer.empty()
        await relay.open()
        assert await asyncio.wait_for(answer.get(), 10) == 7
    assert "postgresql" not in readiness.waiting_for


async def test_a_pool_waits_for_a_database_that_is_not_made_yet(postgres: Postgres) -> None:
    name, readiness = f"test_{uuid4().hex}", Readiness()
    opened, close = asyncio.Event(), asyncio.Event()

    async def process() -> None:
        async with open_pool(postgres.dsn(name), readiness=readiness):
            opened.set()
            await close.wait()

    conn = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        async with running(process()):
            assert name in await away(readiness)
            await conn.execute(f'CREATE DATABASE "{name}"')
            await asyncio.wait_for(opened.wait(), 10)
    finally:
        await conn.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        await conn.close()


async def test_a_wrong_password_is_not_waited_for(postgres: Postgres, relay: Relay) -> None:
    await relay.open()
    dsn = dsn_of(relay, postgres).replace(quote(postgres.password), "wrong")
    with pytest.raises(asyncpg.InvalidPasswordError):
        async with open_pool(dsn):
            pass


async def test_readiness_follows_the_database_while_the_process_runs(postgres: Postgres, relay: Relay) -> None:
    await relay.open()
    readiness = Readiness()
    async with (
        open_pool(dsn_of(relay, postgres), readiness=readiness) as pool,
        running(watch_pool(pool, readiness, every=0.05)),
    ):
        await back(readiness)
        await relay.close()
        await away(readiness)
        await relay.open()
        await back(readiness)
        assert await pool.fetchval("SELECT 1") == 1


async def test_what_a_lost_database_raises_is_known(postgres: Postgres, relay: Relay) -> None:
    await relay.open()
    async with open_pool(dsn_of(relay, postgres), size=2) as pool:
        asking = asyncio.create_task(pool.fetchval("SELECT pg_sleep(60)"))

        async def asked() -> bool:
            return bool(pool.get_size() - pool.get_idle_size())

        await until(asked)
        await relay.close()
        with pytest.raises(LOST):
            await asyncio.wait_for(asking, 5)
        with pytest.raises(LOST):
            await pool.fetchval("SELECT 1")
        await relay.open()
        assert await pool.fetchval("SELECT 1") == 1


async def test_a_transaction_that_is_given_up_leaves_nothing_on_its_connection(postgres: Postgres) -> None:
    """Connections are not reset between uses, so a rollback must be enough."""
    async with open_pool(postgres.dsn("postgres"), size=1) as pool:
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with pool.acquire() as conn, conn.transaction():
                await conn.execute("SET LOCAL lock_timeout = '123ms'; SELECT 1 / 0")
        assert await pool.fetchval("SHOW lock_timeout") == "0"
        assert await pool.fetchval("SHOW timezone") == "UTC"
        # A statement that was cancelled leaves a connection that still works.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pool.fetchval("SELECT pg_sleep(60)"), 0.1)
        assert await pool.fetchval("SELECT 1") == 1
