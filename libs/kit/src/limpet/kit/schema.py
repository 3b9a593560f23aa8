"""What must be there before a service can work, made (`prepare`) or waited for (`wait`) without starting the service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import asyncpg
import nats.errors
import structlog

from limpet.kit.backoff import delay
from limpet.kit.bus import open_bus
from limpet.kit.log import setup_logging
from limpet.kit.migrate import migrate, missing
from limpet.kit.pg import COLLIDED, LOST
from limpet.kit.settings import Common, load
from limpet.kit.streams import absent

log = structlog.get_logger()

# The server is not there yet, its roles or databases are not, or another transaction holds a lock on a table.
NOT_YET = (
    *LOST,
    *COLLIDED,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    nats.errors.Error,
)
T = TypeVar("T")


class Settings(Common):
    """No port: nothing listens."""

    ops_port: int = 0


async def prepare(settings: Settings, package: str) -> None:
    """Apply the package's migrations and make the streams, however long the servers take to answer."""
    dsn = settings.pg_dsn.get_secret_value()
    applied = await _patiently(lambda: migrate(dsn, package))
    async with open_bus(
        settings.nats_url, name="prepare", replicas=settings.stream_replicas, ca_file=settings.nats_ca_file
    ):
        log.info("schema_prepared", package=package, applied=applied)


async def wait(settings: Settings, package: str, *, every: float = 1.0) -> None:
    """Return when every migration of the package has been applied and every stream and consumer is there."""
    dsn = settings.pg_dsn.get_secret_value()
    said: list[str] = []
    while (lacking := await _patiently(lambda: _lacking(settings, dsn, package))) != []:
        if said != (said := lacking):
            log.info("waiting_for_schema", package=package, missing=lacking)
        await asyncio.sleep(every)
    log.info("schema_ready", package=package)


async def _lacking(settings: Settings, dsn: str, package: str) -> list[str]:
    async with open_bus(settings.nats_url, name="wait", ca_file=settings.nats_ca_file, ensure=False) as bus:
        return [*await missing(dsn, package), *await absent(bus.client.jetstream())]


async def _patiently(work: Callable[[], Awaitable[T]]) -> T:
    attempt = 0
    while True:
        try:
            return await work()
        except NOT_YET as error:
            attempt += 1
            log.warning("waiting_for_servers", error=repr(error), attempt=attempt)
            await asyncio.sleep(delay(attempt, base=0.25, cap=5, rng=Random()))


def run(package: str) -> None:
    """`python -m <package> prepare|wait`."""
    commands = {"prepare": prepare, "wait": wait}
    command = commands.get(sys.argv[1]) if len(sys.argv) == 2 else None
    if command is None:
        sys.stderr.write(f"usage: python -m {package} {'|'.join(commands)}\n")
        raise SystemExit(2)
    settings = load(Settings)
    setup_logging(package.rpartition(".")[2], settings.log_level)
    asyncio.run(command(settings, package))
