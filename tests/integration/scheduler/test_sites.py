"""Site configurations with the proxies that are blocked there, as the real broker says."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceStub
from limpet.kit.bus import Bus
from limpet.kit.keys import Keys
from limpet.kit.pg import Pool, open_pool
from limpet.kit.rpc import open_channel
from limpet.scheduler.api.app import make_api
from limpet.scheduler.blocklists import Blocklists
from limpet.scheduler.signature import Signer
from tests.conftest import Database
from tests.support.broker_process import broker_process
from tests.support.brokering import Brokering
from tests.support.runs import HOST, begin_run, start_url
from tests.support.scheduler_api import as_role
from tests.support.scheduling import make_domain
from tests.support.sealing import sealing_key

CONFIGS = "/api/sites/configs"


@pytest.fixture(autouse=True)
async def sites(pool: Pool) -> None:
    await make_domain(pool)
    await make_domain(pool, "quiet.test")


@asynccontextmanager
async def asking(pool: Pool, bus: Bus, address: str) -> AsyncIterator[httpx.AsyncClient]:
    keys = Keys((("read", hashlib.sha256(b"read").hexdigest()),))
    async with open_channel(address) as channel:
        app = make_api(
            pool, bus, keys, submitted=lambda: None, changed=lambda: None, signer=Signer(b"m" * 32),
            blocklists=Blocklists(ProxyServiceStub(channel)),
        )  # fmt: skip
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://s", headers=as_role("read")) as client:
            yield client


async def test_s21_every_site_names_the_proxies_that_are_blocked_there_now(
    pool: Pool, bus: Bus, api: httpx.AsyncClient, database: Database, nats_url: str, tmp_path: Path
) -> None:
    await begin_run(api)
    dsn = await database("limpet.proxy_broker")
    async with open_pool(dsn, size=2) as broker_pool:
        brokering = Brokering(broker_pool)
        datacenter = await brokering.add(kind="datacenter")
        residential = await brokering.add(kind="residential")
        # With others that do well it is the proxy's fault, and not the site that refuses everybody.
        good = [await brokering.add() for _ in range(6)]
        await brokering.use("success", *good, domain=HOST, times=3)
        await brokering.use("blocked", datacenter, domain=HOST)
        await brokering.use("success", *good, domain=HOST, times=3)
        await brokering.use("blocked", residential, domain=HOST)
        keys = sealing_key()
        async with (
            broker_process(dsn=dsn, nats_url=nats_url, keys=keys, log=tmp_path / "broker.log") as broker,
            asking(pool, bus, broker.address) as client,
        ):
            told = (await client.get(CONFIGS)).json()
            assert told["blocked_proxies"] == "included"
            quiet, shop = told["items"]
            assert (shop["name"], shop["blocked_proxies"]) == (HOST, [datacenter]), (
                "residential proxies are not blocklisted"
            )
            assert (quiet["name"], quiet["blocked_proxies"]) == ("quiet.test", [])
            assert shop["start_pages"] == [start_url(1), start_url(2)]
            assert shop["max_concurrent_requests"] == 100
            without = (await client.get(CONFIGS, params={"include_blocked_proxies": False})).json()
            assert without["blocked_proxies"] == "left_out"
            assert all("blocked_proxies" not in site for site in without["items"])
            # It expires by itself.
            await broker_pool.execute("UPDATE pairs SET blocked_until = now() - interval '1 s'")
            assert [site["blocked_proxies"] for site in (await client.get(CONFIGS)).json()["items"]] == [[], []]
            await broker.kill()
            away = await client.get(CONFIGS)
            assert (away.status_code, away.json()["blocked_proxies"]) == (200, "unavailable")
            assert all("blocked_proxies" not in site for site in away.json()["items"]), "nobody knows is not none"
            assert [site["name"] for site in away.json()["items"]] == ["quiet.test", HOST]
