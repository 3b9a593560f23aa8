"""Fixtures: one PostgreSQL and one NATS per test process; a database of its own for every test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from uuid import uuid4

import asyncpg
import pytest

from limpet.cli.local.postgres import Postgres
from limpet.kit.bus import Bus, open_bus
from limpet.kit.migrate import migrate
from limpet.kit.pg import Pool, open_pool
from tests.support.servers import nats_server, postgres_server

Database = Callable[[str], Awaitable[str]]
PoolFactory = Callable[[str], Awaitable[Pool]]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def nats_url() -> Iterator[str]:
    with nats_server() as url:
        yield url


_templates: dict[tuple[int, str], str] = {}


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    """`await database("limpet.scheduler")` is the address of a fresh, migrated database: a clone of a template."""
    made: list[str] = []
    conn = await asyncpg.connect(postgres.dsn("postgres"))

    async def make(package: str) -> str:
        template = _templates.get((postgres.port, package))
        if template is None:
            template = f"template_{uuid4().hex}"
            await conn.execute(f'CREATE DATABASE "{template}"')
            await migrate(postgres.dsn(template), package)
            _templates[(postgres.port, package)] = template
        name = f"test_{uuid4().hex}"
        await conn.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY')
        made.append(name)
        return postgres.dsn(name)

    yield make
    for name in made:
        await conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await conn.close()


@pytest.fixture
async def pool_of(database: Database) -> AsyncIterator[PoolFactory]:
    """`await pool_of("limpet.scheduler")` is a pool on a fresh, migrated database."""
    async with AsyncExitStack() as stack:

        async def make(package: str) -> Pool:
            return await stack.enter_async_context(open_pool(await database(package)))

        yield make


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[Bus]:
    async with open_bus(nats_url, name="test") as bus:
        yield bus
