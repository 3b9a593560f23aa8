"""A PostgreSQL of the bench's own, with the platform's settings, and databases with the scheduler's tables in it."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import cpu_seconds
from limpet.cli.local.postgres import Postgres
from limpet.cli.local.supervise import Child
from limpet.kit.migrate import migrate
from limpet.kit.pg import Pool, open_pool
from limpet.scheduler.main import PLANS

START_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    postgres: Postgres
    child: Child

    def cpu_seconds(self) -> float:
        """Used so far by the server with all its backends."""
        return cpu_seconds(self.child.pid) if self.child.pid is not None else 0.0

    async def make_database(self, name: str) -> str:
        """A new one; returns its address."""
        self.postgres.create_databases((name,))
        dsn = self.postgres.dsn(name)
        await migrate(dsn, "limpet.scheduler")
        return dsn

    async def drop_database(self, name: str) -> None:
        async with open_pool(self.postgres.dsn("postgres"), size=1) as pool:
            await pool.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="limpet-bench-pg-"))
    postgres = Postgres.in_folder(folder, port=_free_port())
    child = Child(postgres.command(folder / "log"))
    try:
        child.start()
        deadline = time.monotonic() + START_SECONDS
        while not postgres.is_ready():
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL did not become ready: {child.failure}")
            time.sleep(0.05)
        yield Server(postgres, child)
    finally:
        child.ask_to_stop()
        child.wait_stopped()
        postgres.remove_sockets()
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def scheduler_pool(dsn: str, *, size: int = 4) -> AsyncIterator[Pool]:
    """Connected as the scheduler's own process is."""
    async with open_pool(dsn, size=size, settings=PLANS) as pool:
        yield pool


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
