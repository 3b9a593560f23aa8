"""The broker's REST API on a real database and a real port; announcements stay in their table."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx

from limpet.kit.bus import Bus
from limpet.kit.keys import ROLES, Keys
from limpet.kit.pg import Pool
from limpet.kit.rest import serve_rest
from limpet.proxy_broker.alerts import Alerts, Limits
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.api.app import make_api
from limpet.proxy_broker.rollup import RollUp
from limpet.proxy_broker.vault import Vault
from tests.support.listening import listening
from tests.support.parts import running
from tests.support.sealing import sealing_key
from tests.support.servers import free_port

PROXIES = "/api/admin/proxies"
POOLS = "/api/admin/domain-proxies"
KEYS = Keys(tuple((role, hashlib.sha256(role.encode()).hexdigest()) for role in ROLES))


class Silent(Bus):
    """No NATS: what is announced stays in its table."""

    def __init__(self) -> None:
        pass


@dataclass(frozen=True)
class BrokerApi:
    """Asks as admin; each role is its own key."""

    client: httpx.AsyncClient
    pool: Pool
    vault: Vault
    alerts: Alerts
    url: str

    async def ok(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        answer = await self.client.request(method, path, **options)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def add(self, *, port: int = 8080, **values: Any) -> int:
        answer = await self.ok("POST", PROXIES, 201, json={"host": "proxy.test", "port": port, **values})
        return int(answer["proxy_id"])

    async def used(
        self, domain: str, proxy_id: int, *, good: int = 0, failed: int = 0, blocked: int = 0, size: int = 0
    ) -> None:
        """As reports count uses in the pair's totals; a block is a failure too."""
        await self.pool.execute(
            """INSERT INTO pairs AS pair (domain, proxy_id, success_count, failure_count, block_count, byte_count)
               VALUES ($1, $2, $3, $4, $5, $6)
               ON CONFLICT (domain, proxy_id) DO UPDATE
                  SET success_count = pair.success_count + $3, failure_count = pair.failure_count + $4,
                      block_count = pair.block_count + $5, byte_count = pair.byte_count + $6""",
            domain,
            proxy_id,
            good,
            failed + blocked,
            blocked,
            size,
        )

    async def roll_up(self) -> None:
        await RollUp(pool=self.pool, every=timedelta(seconds=1), keep=timedelta(days=400)).round()


@asynccontextmanager
async def broker_api(pool: Pool, *, keys: str = "") -> AsyncIterator[BrokerApi]:
    vault = Vault(keys or sealing_key())
    alerts = Alerts(pool=pool, vault=vault, limits=Limits(), every=timedelta(seconds=1))
    app = make_api(keys=KEYS, pool=pool, vault=vault, announce=Announce(pool, Silent()), watch=alerts)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with running(serve_rest(app, host="127.0.0.1", port=port)):
        await listening(port)
        async with httpx.AsyncClient(base_url=url, headers=as_role("admin"), timeout=60, trust_env=False) as client:
            yield BrokerApi(client, pool, vault, alerts, url)


def as_role(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {role}"}


def fields(answer: httpx.Response, status: int = 422) -> list[str]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return [error["field"] for error in answer.json()["errors"]]
