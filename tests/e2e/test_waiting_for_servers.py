"""NATS or PostgreSQL away at the start or later: the service lives, is not ready, says for what it waits, and goes on by itself."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from limpet.cli.local.postgres import SUPERUSER, Postgres
from tests.conftest import Database
from tests.support.relay import Relay
from tests.support.sealing import sealing_key
from tests.support.servers import free_port, nats_server
from tests.support.waiting import until

SERVICES = ("scheduler", "fetcher", "parser", "proxy_broker", "health")


@contextmanager
def service(name: str, *, folder: Path, dsn: str, nats_url: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    ops = free_port()
    env = {
        "LIMPET_PG_DSN": dsn,
        "LIMPET_NATS_URL": nats_url,
        "LIMPET_OPS_PORT": str(ops),
        "LIMPET_HTTP_PORT": str(free_port()),
        "LIMPET_GRPC_PORT": str(free_port()),
        "LIMPET_API_KEYS": "admin:" + hashlib.sha256(b"key").hexdigest(),
        "LIMPET_SECRET_KEYS": sealing_key(),
        "LIMPET_PAGE_STORE": (folder / "pages").as_uri(),
    }
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"limpet.{name}.main"], env={**os.environ, **env}, stdout=log, stderr=log
        )
    try:
        yield process, f"http://127.0.0.1:{ops}"
    finally:
        process.kill()
        process.wait()


async def ask(url: str) -> httpx.Response | None:
    async with httpx.AsyncClient(trust_env=False) as client:
        try:
            return await client.get(url)
        except httpx.TransportError:
            return None


async def waits_for(ops: str, what: str) -> dict[str, str]:
    async def said() -> Any:
        answer = await ask(f"{ops}/readyz")
        waiting = answer.json()["waiting_for"] if answer is not None and answer.status_code == 503 else {}
        return waiting if what in waiting else None

    found: dict[str, str] = await until(said, seconds=20)
    alive = await ask(f"{ops}/livez")
    assert alive is not None
    assert alive.status_code == 200, "liveness does not depend on servers"
    return found


async def ready(ops: str) -> None:
    async def is_ready() -> bool:
        answer = await ask(f"{ops}/readyz")
        return answer is not None and answer.status_code == 200

    await until(is_ready, seconds=20)


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_waits_for_nats_and_says_so(name: str, database: Database, tmp_path: Path) -> None:
    dsn, port = await database(f"limpet.{name}"), free_port()
    with service(name, folder=tmp_path, dsn=dsn, nats_url=f"nats://127.0.0.1:{port}") as (process, ops):
        assert "refused" in (await waits_for(ops, "nats"))["nats"].lower()
        with nats_server(port=port):
            if name == "fetcher":
                # It starts nothing without the scheduler's clock, and says that too.
                await waits_for(ops, "clock")
            else:
                await ready(ops)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_waits_for_postgresql_and_says_so(name: str, nats_url: str, tmp_path: Path) -> None:
    dsn = f"postgresql://limpet@127.0.0.1:{free_port()}/limpet"
    with service(name, folder=tmp_path, dsn=dsn, nats_url=nats_url) as (process, ops):
        assert (await waits_for(ops, "postgresql"))["postgresql"]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) in (0, -signal.SIGTERM)


async def no_longer(ops: str, what: str) -> None:
    async def back() -> bool:
        answer = await ask(f"{ops}/readyz")
        return answer is not None and what not in answer.json()["waiting_for"]

    await until(back, seconds=20)


@pytest.mark.parametrize("name", SERVICES)
async def test_f11_a_service_that_loses_a_server_is_not_ready_and_alive_and_goes_on_by_itself(
    name: str, database: Database, postgres: Postgres, nats_url: str, tmp_path: Path
) -> None:
    relays = {"nats": Relay(int(nats_url.rpartition(":")[2])), "postgresql": Relay(postgres.port)}
    for relay in relays.values():
        await relay.open()
    fresh = urlsplit(await database(f"limpet.{name}")).path
    dsn = f"postgresql://{SUPERUSER}:{quote(postgres.password)}@127.0.0.1:{relays['postgresql'].port}{fresh}"
    address = f"nats://127.0.0.1:{relays['nats'].port}"
    with service(name, folder=tmp_path, dsn=dsn, nats_url=address) as (process, ops):
        await no_longer(ops, "service")
        for what, relay in relays.items():
            await relay.close()
            await waits_for(ops, what)
            await relay.open()
            await no_longer(ops, what)
        assert process.poll() is None, "one and the same process all the time"
        if name != "fetcher":
            await ready(ops)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0
    for relay in relays.values():
        await relay.close()
