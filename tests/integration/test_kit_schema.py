"""H5: what a service needs is made and waited for without starting it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from limpet.cli.local.postgres import Postgres
from limpet.kit.migrate import missing, scripts
from tests.support.servers import nats_process

PACKAGE = "limpet.parser"


@asynccontextmanager
async def command(word: str, *, dsn: str, nats_url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        PACKAGE,
        word,
        env={"LIMPET_PG_DSN": dsn, "LIMPET_NATS_URL": nats_url},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: asyncio.subprocess.Process, event: str) -> None:
    assert process.stderr is not None
    while event.encode() not in (line := await asyncio.wait_for(process.stderr.readline(), 30)):
        assert line, f"it ended and never said {event}"


async def test_h5_waiting_ends_when_the_schema_and_the_streams_have_been_made(postgres: Postgres) -> None:
    with nats_process() as server:
        server.start()
        name = "waited_for"
        postgres.create_databases((name,))
        dsn = postgres.dsn(name)
        async with command("wait", dsn=dsn, nats_url=server.url) as waiting:
            await said(waiting, "waiting_for_schema")
            async with command("prepare", dsn=dsn, nats_url=server.url) as preparing:
                await said(preparing, "schema_prepared")
                assert await asyncio.wait_for(preparing.wait(), 20) == 0
            await said(waiting, "schema_ready")
            assert await asyncio.wait_for(waiting.wait(), 20) == 0
        assert await missing(dsn, PACKAGE) == []
        # A later version is missing what this one does not have yet.
        conn = await asyncpg.connect(dsn)
        last = list(scripts(PACKAGE))[-1]
        await conn.execute("DELETE FROM schema_migrations WHERE name = $1", last)
        await conn.close()
        assert await missing(dsn, PACKAGE) == [last]


async def test_h5_preparing_waits_for_servers_that_come_later(postgres: Postgres) -> None:
    with nats_process() as server:
        name = "made_late"
        dsn = postgres.dsn(name)
        async with command("prepare", dsn=dsn, nats_url=server.url) as preparing:
            await said(preparing, "waiting_for_servers")
            postgres.create_databases((name,))
            await said(preparing, "nats_error")
            await asyncio.to_thread(server.start)
            await said(preparing, "schema_prepared")
            assert await asyncio.wait_for(preparing.wait(), 20) == 0


@pytest.mark.parametrize("words", [[], ["serve"], ["prepare", "twice"]])
async def test_h5_a_wrong_word_is_refused_with_the_right_ones(words: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", PACKAGE, *words, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert process.returncode == 2
    assert b"prepare|wait" in stderr
