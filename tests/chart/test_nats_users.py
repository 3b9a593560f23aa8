"""H5, I1: the five services work with the NATS users that the chart gives them, and those may do nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import nats.errors
import pytest
from nats.aio.client import Client

from limpet.cli.local.platform import Platform
from tests.support.door import open_door
from tests.support.helm import SERVICES, one, rendered
from tests.support.servers import free_port, wait_for_port
from tests.support.site import Plain
from tests.support.waiting import until

PASSWORDS = {service: f"password-of-{service}" for service in SERVICES.values()}


class Server:
    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self.log = log

    def url(self, service: str) -> str:
        return f"nats://limpet-{service}:{PASSWORDS[service]}@127.0.0.1:{self.port}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A NATS server with the very configuration that the chart renders; only its addresses and folder are of this machine."""
    config = one(rendered("default"), "ConfigMap", "-nats")["data"]["nats.conf"]
    port = free_port()
    config = re.sub(r'listen: "[^"]+"', f'listen: "127.0.0.1:{port}"', config)
    config = re.sub(r'http: "[^"]+"', f'http: "127.0.0.1:{free_port()}"', config)
    config = config.replace("store_dir: /data", f"store_dir: {tmp_path / 'store'}")
    (tmp_path / "nats.conf").write_text(config)
    env = {f"{service.upper().replace('-', '_')}_PASSWORD": password for service, password in PASSWORDS.items()}
    binary = Path(sys.executable).with_name("nats-server")
    log = tmp_path / "nats.log"
    process = subprocess.Popen(
        [str(binary), "--config", str(tmp_path / "nats.conf"), "--log", str(log)], env={**os.environ, **env}
    )
    try:
        wait_for_port(port, process)
        yield Server(port, log)
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def user(server: Server, service: str) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client, and what the server has refused it."""
    refused: list[str] = []

    async def on_error(error: Exception) -> None:
        refused.append(str(error).lower())

    client = await nats.connect(
        server.url(service), error_cb=on_error, inbox_prefix=f"_INBOX_limpet-{service}".encode()
    )
    try:
        yield client, refused
    finally:
        await client.close()


async def test_h5_the_five_services_crawl_with_the_users_of_the_chart(server: Server, tmp_path: Path) -> None:
    processes = {"scheduler-1": "scheduler", "fetcher-1": "fetcher"} | {
        name: name for name in ("parser", "proxy-broker", "health")
    }
    own = {name: {"LIMPET_NATS_URL": server.url(service)} for name, service in processes.items()}
    env = {"LIMPET_ALLOWED_NETWORKS": "127.0.0.0/8"}
    with Platform(tmp_path / "limpet", env=env, own_env=own) as platform:
        async with open_door(platform) as door, Plain(30) as site:
            await door.make_domain(site.host, crawl_delay_seconds=0)
            await door.submit(site.page_urls(), batch="permitted")
            await door.completed("permitted", 30, seconds=60)
            stats = await until(lambda: door.get("/api/system/stats"), seconds=10)
            assert stats
    log = server.log.read_text()
    assert "violation" not in log.lower(), [line for line in log.splitlines() if "iolation" in line][:5]


@pytest.mark.parametrize(
    ("service", "subject"),
    [
        ("fetcher", "crawl.parsed.page"),
        ("fetcher", "crawl.fetch.requested.high"),
        ("parser", "crawl.page.fetched"),
        ("health", "crawl.fetch.requested.normal"),
        ("proxy-broker", "domain.changed.1"),
        ("scheduler", "$JS.API.STREAM.DELETE.FETCH"),
        ("scheduler", "$JS.API.STREAM.PURGE.PAGES"),
        ("fetcher", "$JS.API.CONSUMER.MSG.NEXT.PAGES.parser"),
        ("health", "$SYS.REQ.SERVER.PING"),
    ],
)
async def test_i1_a_service_may_not_publish_what_is_not_its_own(server: Server, service: str, subject: str) -> None:
    async with user(server, service) as (client, refused):
        await client.publish(subject, b"")
        await client.flush()
        await until(lambda: _any(refused), seconds=10)
        assert "permissions violation" in refused[0]


@pytest.mark.parametrize(
    ("service", "subject"),
    [("fetcher", "_INBOX_limpet-scheduler.>"), ("health", "_INBOX.>"), ("parser", "beat.*"), ("fetcher", "crawl.>")],
)
async def test_i1_a_service_may_not_listen_to_others(server: Server, service: str, subject: str) -> None:
    async with user(server, service) as (client, refused):
        await client.subscribe(subject)
        await client.flush()
        await until(lambda: _any(refused), seconds=10)
        assert "permissions violation" in refused[0]


async def _any(refused: list[str]) -> bool:
    return bool(refused)
