"""The connection pool: waits for its database, says so, and decodes nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeAlias

import asyncpg
import structlog

from limpet.kit.backoff import delay
from limpet.kit.ops import Readiness

Record: TypeAlias = Any
Conn: TypeAlias = "asyncpg.Connection[Record] | asyncpg.pool.PoolConnectionProxy[Record]"
Pool: TypeAlias = "asyncpg.Pool[Record]"
# What a lost or restarting server raises: worth another try.
LOST = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.InternalClientError,
    TimeoutError,
)
# What a transaction raises that ran into another one: nothing was written, and the same again can succeed.
COLLIDED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.LockNotAvailableError)

log = structlog.get_logger()


class _Plain(asyncpg.Connection):
    """Nothing of ours outlives a transaction on a connection, so there is nothing to reset between two uses."""

    def get_reset_query(self) -> str:
        return ""


@asynccontextmanager
async def open_pool(
    dsn: str, *, size: int = 10, readiness: Readiness | None = None, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Pool]:
    """A pool on a database that answers. Until it does: not ready, retrying with backoff.

    `settings` are the server's, for every connection of the pool.
    """
    pool = await _connect(dsn, size=size, readiness=readiness, settings=settings or {})
    try:
        yield pool
    finally:
        try:
            async with asyncio.timeout(5):
                await pool.close()
        except TimeoutError:
            pool.terminate()


async def _connect(dsn: str, *, size: int, readiness: Readiness | None, settings: Mapping[str, str]) -> Pool:
    attempt = 0
    while True:
        try:
            pool = await asyncpg.create_pool(
                dsn,
                connection_class=_Plain,
                min_size=1,
                max_size=size,
                command_timeout=60,
                timeout=10,
                max_inactive_connection_lifetime=0,
                server_settings={
                    "application_name": "limpet",
                    "idle_in_transaction_session_timeout": "30s",
                    "timezone": "UTC",
                    **settings,
                },
            )
        except (*LOST, asyncpg.InvalidCatalogNameError) as error:
            attempt += 1
            if readiness is not None:
                readiness.set("postgresql", ok=False, why=f"{type(error).__name__}: {error}")
            log.warning("waiting_for_postgresql", error=str(error), attempt=attempt)
            await asyncio.sleep(delay(attempt, base=0.25, cap=5, rng=Random()))
        else:
            if readiness is not None:
                readiness.set("postgresql", ok=True)
            return pool


async def watch_pool(pool: Pool, readiness: Readiness, *, every: float = 3.0) -> None:
    """A part: readiness follows the database while the process runs."""
    while True:
        try:
            async with asyncio.timeout(5):
                await pool.fetchval("SELECT 1")
            readiness.set("postgresql", ok=True)
        except (*LOST, asyncpg.PostgresError) as error:
            readiness.set("postgresql", ok=False, why=f"{type(error).__name__}: {error}")
        await asyncio.sleep(every)
