"""Broker processes for tests: started with settings of their own, asked to stop or killed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.support.servers import free_port
from tests.support.waiting import until


class BrokerProcess:
    """One replica. It answers on `address` until it is killed."""

    def __init__(self, process: subprocess.Popen[bytes], *, address: str, ops: str, log: Path) -> None:
        self.process, self.address, self.log = process, address, log
        self._ready = f"{ops}/readyz"

    async def ready(self) -> None:
        async def answers() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            async with httpx.AsyncClient() as client:
                try:
                    return (await client.get(self._ready)).status_code == 200
                except httpx.TransportError:
                    return False

        await until(answers, seconds=30)

    async def kill(self) -> None:
        """As a crash would: nothing is finished, nothing is said."""
        self.process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(self.process.wait, 10)


@asynccontextmanager
async def broker_process(
    *, dsn: str, nats_url: str, keys: str, log: Path, **settings: str
) -> AsyncIterator[BrokerProcess]:
    ops, rpc = free_port(), free_port()
    environment = {
        "LIMPET_PG_DSN": dsn,
        "LIMPET_NATS_URL": nats_url,
        "LIMPET_OPS_PORT": str(ops),
        "LIMPET_HTTP_PORT": str(free_port()),
        "LIMPET_GRPC_PORT": str(rpc),
        "LIMPET_API_KEYS": f"admin:{hashlib.sha256(b'admin').hexdigest()}",
        "LIMPET_SECRET_KEYS": keys,
        **{f"LIMPET_{name.upper()}": value for name, value in settings.items()},
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "limpet.proxy_broker.main"],
            env={**os.environ, **environment},
            stdout=out,
            stderr=out,
        )
    running = BrokerProcess(process, address=f"127.0.0.1:{rpc}", ops=f"http://127.0.0.1:{ops}", log=log)
    try:
        await running.ready()
        yield running
    finally:
        process.kill()
        process.wait()
