"""The broker's use cases on a database, without its edges; leases can be opened on a proxy of the test's choice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from limpet.kit.bus import Bus
from limpet.kit.pg import Pool
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.blame import Outcome, Probe, Threshold, Use
from limpet.proxy_broker.expire import Expire
from limpet.proxy_broker.lease import Grant, Lease, Want
from limpet.proxy_broker.policy import Policy
from limpet.proxy_broker.probe import Probe as Prober
from limpet.proxy_broker.refusal import Patience, Refusal
from limpet.proxy_broker.report import Report
from limpet.proxy_broker.store import pairs, policies, proxies
from limpet.proxy_broker.store.proxies import NewProxy
from limpet.proxy_broker.vault import Vault
from tests.support.sealing import sealing_key

VAULT = Vault(sealing_key())
PROXY = Threshold(failures=10, cooldown=timedelta(minutes=60))
PAIR = Threshold(failures=5, cooldown=timedelta(minutes=30))
PLAIN = NewProxy(
    protocol="http",
    host="proxy.test",
    port=1,
    username="",
    kind="datacenter",
    country_code="",
    city="",
    provider="",
    monthly_cost=None,
    max_requests_per_hour=None,
    max_concurrent_leases=10,
)


class Silent(Bus):
    """No NATS here: the announcements stay in their table."""

    def __init__(self) -> None:
        pass


class Brokering:
    def __init__(self, pool: Pool, *, proxy: Threshold = PROXY, pair: Threshold = PAIR) -> None:
        announce = Announce(pool, Silent())
        self.pool = pool
        self.leasing = Lease(pool=pool, vault=VAULT, proxy=proxy, pair=pair, patience=Patience())
        self.reporting = Report(pool=pool, announce=announce, proxy=proxy, pair=pair)
        self.expiry = Expire(pool=pool, every=timedelta(seconds=1))
        self.prober = Prober(
            pool=pool,
            vault=VAULT,
            announce=announce,
            threshold=proxy,
            every=timedelta(seconds=1),
            timeout=timedelta(seconds=3),
        )
        self._task = 0

    async def add(self, **values: Any) -> int:
        async with self.pool.acquire() as conn:
            count = await conn.fetchval("SELECT count(*) FROM proxies")
            proxy_id = await proxies.add(conn, proxy=replace(PLAIN, **{"port": count + 1, **values}))
        assert proxy_id is not None
        return proxy_id

    async def assign(self, domain: str, *proxy_ids: int) -> None:
        async with self.pool.acquire() as conn:
            for proxy_id in proxy_ids:
                assert await pairs.assign(conn, domain=domain, proxy_id=proxy_id, priority=5)

    async def decide(self, domain: str = "shop.test", **values: Any) -> None:
        """A person's policy."""
        async with self.pool.acquire() as conn:
            await policies.save(conn, Policy(domain=domain, **values))

    def want(self, domain: str = "shop.test") -> Want:
        self._task += 1
        return Want(domain=domain, country="", task_id=self._task, attempt=1, ttl=timedelta(seconds=60))

    async def lease(self, *domains: str) -> list[Grant | Refusal]:
        return await self.leasing.lease([self.want(domain) for domain in domains], holder="test")

    async def opened(self, proxy_id: int | None, domain: str = "shop.test", *, probe: Probe = "") -> int:
        """A lease on this very proxy, or on the direct way, as if it had been given."""
        self._task += 1
        async with self.pool.acquire() as conn, conn.transaction():
            await conn.execute("UPDATE proxies SET open_leases = open_leases + 1 WHERE proxy_id = $1", proxy_id)
            if proxy_id is not None:
                await conn.execute(
                    "INSERT INTO pairs (domain, proxy_id) VALUES ($1, $2) ON CONFLICT DO NOTHING", domain, proxy_id
                )
            lease_id: int = await conn.fetchval(
                "INSERT INTO leases (proxy_id, domain, task_id, attempt, holder, expires_at, probe)"
                " VALUES ($1, $2, $3, 1, 'test', now() + interval '1 minute', $4) RETURNING lease_id",
                proxy_id,
                domain,
                self._task,
                probe,
            )
        return lease_id

    async def report(self, outcome: Outcome, *lease_ids: int) -> int:
        return await self.reporting.report(
            [Use(lease_id=lease_id, outcome=outcome, response_ms=50) for lease_id in lease_ids]
        )

    async def use(
        self,
        outcome: Outcome,
        *proxy_ids: int | None,
        domain: str = "shop.test",
        times: int = 1,
        probe: Probe = "",
        **values: Any,
    ) -> None:
        """One use of each proxy, one report for each, so many times."""
        for _ in range(times):
            for proxy_id in proxy_ids:
                lease_id = await self.opened(proxy_id, domain, probe=probe)
                use = Use(lease_id=lease_id, outcome=outcome, response_ms=100, **values)
                assert await self.reporting.report([use]) == 1

    async def one(self, sql: str, *values: Any) -> Any:
        return await self.pool.fetchval(sql, *values)

    async def pair(self, proxy_id: int, domain: str = "shop.test") -> Any:
        return await self.pool.fetchrow(
            "SELECT *, blocked_until > now() AS blocked, cooling_until > now() AS cooling"
            " FROM pairs WHERE domain = $1 AND proxy_id = $2",
            domain,
            proxy_id,
        )

    async def proxy(self, proxy_id: int) -> Any:
        return await self.pool.fetchrow(
            "SELECT *, cooling_until > now() AS cooling FROM proxies WHERE proxy_id = $1", proxy_id
        )

    async def state(self, domain: str = "shop.test") -> Any:
        return await self.pool.fetchrow(
            "SELECT *, held_until > now() AS held FROM domain_states WHERE domain = $1", domain
        )
