"""Eight clients hammer two brokers, one of which is killed: limits hold, and no lease is lost for longer than its life."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import grpc.aio
import pytest

from limpet.contracts.proxy.v1 import proxy_service_pb2 as pb
from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceStub
from limpet.kit.clock import to_seconds
from limpet.kit.rpc import open_channel
from tests.conftest import Database
from tests.support.broker_process import BrokerProcess, broker_process
from tests.support.sealing import sealing_key
from tests.support.waiting import until

if TYPE_CHECKING:
    from limpet.contracts.proxy.v1.proxy_service_pb2_grpc import ProxyServiceAsyncStub

CLIENTS, PROXIES = 8, 12
# A tenth of the hour at once, the rest in the course of it: so few come during the test that the burst is the limit.
HOURLY, AT_ONCE, CONCURRENT = 300, 30, 3
TTL_SECONDS = 5
DOMAINS = ("own.test", "a.test", "b.test")

ADD = """
    INSERT INTO proxies (protocol, host, port, max_requests_per_hour, max_concurrent_leases)
    SELECT 'http', 'proxy.test', n, CASE WHEN n % 2 = 0 THEN $2::integer END, $3 FROM generate_series(1, $1) AS n
"""
ASSIGN = "INSERT INTO pairs (domain, proxy_id, assigned) SELECT 'own.test', proxy_id, true FROM proxies WHERE port <= 4"
WRONG_COUNTS = """
    SELECT proxy.proxy_id, proxy.open_leases, count(lease.lease_id) AS rows
      FROM proxies AS proxy LEFT JOIN leases AS lease USING (proxy_id)
     GROUP BY proxy.proxy_id HAVING proxy.open_leases <> count(lease.lease_id)
"""


@dataclass(frozen=True)
class Held:
    """From the answer to just before the report, or to the end of its life: certainly held meanwhile."""

    lease_id: int
    proxy_id: int
    since: float
    until: float


@dataclass
class Ledger:
    """What the clients saw."""

    held: list[Held] = field(default_factory=list)
    reported: Counter[int] = field(default_factory=Counter)
    errors: int = 0
    tasks: count[int] = field(default_factory=lambda: count(1))


@pytest.fixture
async def replicas(database: Database, nats_url: str, tmp_path: Path) -> AsyncIterator[tuple[str, list[BrokerProcess]]]:
    dsn, keys = await database("limpet.proxy_broker"), sealing_key()
    async with (
        broker_process(dsn=dsn, nats_url=nats_url, keys=keys, log=tmp_path / "first.log") as first,
        broker_process(dsn=dsn, nats_url=nats_url, keys=keys, log=tmp_path / "second.log") as second,
    ):
        yield dsn, [first, second]


async def hammer(number: int, replicas: list[BrokerProcess], ledger: Ledger, stop: asyncio.Event) -> None:
    """Lease and report through both in turn. What no broker answers stays open and is left to expire."""
    async with open_channel(replicas[0].address) as one, open_channel(replicas[1].address) as two:
        stubs = [ProxyServiceStub(one), ProxyServiceStub(two)]
        for turn in count(number):
            if stop.is_set():
                return
            try:
                await use(stubs[turn % 2], stubs[(turn // 2) % 2], turn, ledger)
            except grpc.aio.AioRpcError:
                ledger.errors += 1


async def use(leasing: ProxyServiceAsyncStub, reporting: ProxyServiceAsyncStub, turn: int, ledger: Ledger) -> None:
    wants = [
        pb.Want(domain=domain, task_id=next(ledger.tasks), attempt=1, ttl_seconds=TTL_SECONDS)
        for domain in (*DOMAINS, DOMAINS[turn % 3])
    ]
    answer = await leasing.Lease(pb.LeaseRequest(holder="hammer", wants=wants), timeout=5)
    got = time.time()
    grants = [grant for grant in answer.grants if grant.lease_id]
    uses = [pb.Used(lease_id=grant.lease_id, outcome=pb.OUTCOME_SUCCESS, response_ms=5) for grant in grants]
    if turn % 10 == 0:  # a holder that dies
        gone = {grant.lease_id: to_seconds(grant.expires_time) for grant in grants}
        ledger.held += [Held(grant.lease_id, grant.proxy_id, got, gone[grant.lease_id]) for grant in grants]
        return
    ledger.held += [Held(grant.lease_id, grant.proxy_id, got, time.time()) for grant in grants]
    taken = (await reporting.Report(pb.ReportRequest(uses=uses), timeout=5)).taken
    assert taken == len(uses)
    ledger.reported.update(grant.proxy_id for grant in grants)


def most_at_once(held: list[Held]) -> int:
    edges = sorted([(one.since, 1) for one in held] + [(one.until, -1) for one in held])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


async def test_b3_two_brokers_under_eight_clients_keep_every_limit_when_one_is_killed(
    replicas: tuple[str, list[BrokerProcess]],
) -> None:
    dsn, brokers = replicas
    conn = await asyncpg.connect(dsn)
    await conn.execute(ADD, PROXIES, HOURLY, CONCURRENT)
    await conn.execute(ASSIGN)
    ledger, stop, started = Ledger(), asyncio.Event(), time.time()
    clients = [asyncio.create_task(hammer(number, brokers, ledger, stop)) for number in range(CLIENTS)]

    async def enough(leases: int) -> None:
        async def seen() -> bool:
            assert not any(client.done() for client in clients), [client for client in clients if client.done()]
            return len(ledger.held) >= leases

        await until(seen, seconds=60)

    await enough(300)
    await brokers[0].kill()
    before = len(ledger.held)
    await enough(before + 300)
    stop.set()
    await asyncio.gather(*clients)
    assert ledger.errors > 0, "nobody noticed that a broker died"
    hours = (time.time() - started) / 3600

    by_proxy: dict[int, list[Held]] = {}
    for one in ledger.held:
        by_proxy.setdefault(one.proxy_id, []).append(one)
    assert max(most_at_once(held) for held in by_proxy.values()) <= CONCURRENT
    limits = {row["proxy_id"]: row["max_requests_per_hour"] for row in await conn.fetch("SELECT * FROM proxies")}
    for proxy_id, held in by_proxy.items():
        if limits[proxy_id] is not None:
            assert len(held) <= AT_ONCE + (HOURLY - AT_ONCE) * hours + 1
    assert len(by_proxy) == PROXIES
    assert len({one.lease_id for one in ledger.held}) == len(ledger.held), "a lease was given twice"

    # Whatever is still open belongs to the dead; the broker that lives collects it when its time is over.
    assert await conn.fetch(WRONG_COUNTS) == []
    late = await conn.fetchval(
        "SELECT count(*) FROM leases WHERE expires_at > now() + $1 * interval '1 s'", TTL_SECONDS
    )
    assert late == 0

    async def collected() -> bool:
        return bool(await conn.fetchval("SELECT count(*) = 0 FROM leases"))

    await until(collected, seconds=TTL_SECONDS + 5)
    assert await conn.fetch(WRONG_COUNTS) == []
    # Reports that the killed broker took without saying so count as well.
    counted = {row["proxy_id"]: row["success_count"] for row in await conn.fetch("SELECT * FROM proxies")}
    assert all(ledger.reported[proxy_id] <= counted[proxy_id] for proxy_id in counted)
    assert sum(counted.values()) <= len(ledger.held)
    sums = "SELECT proxy_id, sum(success_count) AS total FROM pairs GROUP BY proxy_id"
    assert {row["proxy_id"]: row["total"] for row in await conn.fetch(sums)} == counted
    await conn.close()
