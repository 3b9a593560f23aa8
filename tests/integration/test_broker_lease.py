"""Leases and reports on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from limpet.kit.pg import Pool
from limpet.proxy_broker import store
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.blame import Outcome, Use
from limpet.proxy_broker.expire import Expire
from limpet.proxy_broker.lease import Grant, Lease, Want
from limpet.proxy_broker.refusal import Patience, Refusal
from limpet.proxy_broker.report import Report
from limpet.proxy_broker.store import pairs, proxies
from limpet.proxy_broker.vault import Vault
from tests.conftest import Database, PoolFactory
from tests.support.brokering import PAIR, PLAIN, PROXY, VAULT, Silent
from tests.support.sealing import sealing_key

SOMEBODY_WAITS = """
    SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
"""


class Broker:
    """The use cases on one database, as two brokers would have them too."""

    def __init__(self, pool: Pool) -> None:
        announce = Announce(pool, Silent())
        self.pool = pool
        self.leasing = Lease(pool=pool, vault=VAULT, proxy=PROXY, pair=PAIR, patience=Patience())
        self.reporting = Report(pool=pool, announce=announce, proxy=PROXY, pair=PAIR)
        self.expiry = Expire(pool=pool, every=timedelta(seconds=1))
        self._task = 0

    async def add(self, **values: Any) -> int:
        async with self.pool.acquire() as conn:
            count = await conn.fetchval("SELECT count(*) FROM proxies")
            proxy_id = await proxies.add(conn, proxy=replace(PLAIN, **{"port": count + 1, **values}))
        assert proxy_id is not None
        return proxy_id

    async def assign(self, domain: str, proxy_id: int, *, priority: int = 5) -> None:
        async with self.pool.acquire() as conn:
            assert await pairs.assign(conn, domain=domain, proxy_id=proxy_id, priority=priority)

    def want(self, domain: str = "shop.test", *, country: str = "", ttl: float = 60) -> Want:
        self._task += 1
        return Want(domain=domain, country=country, task_id=self._task, attempt=1, ttl=timedelta(seconds=ttl))

    async def lease(self, *wants: Want) -> list[Grant | Refusal]:
        return await self.leasing.lease(wants, holder="test")

    async def grants(self, *wants: Want) -> list[Grant]:
        answers = await self.lease(*wants)
        assert all(isinstance(answer, Grant) for answer in answers), answers
        return [answer for answer in answers if isinstance(answer, Grant)]

    async def refusal(self, want: Want) -> Refusal:
        [answer] = await self.lease(want)
        assert isinstance(answer, Refusal)
        return answer

    async def use(self, outcome: Outcome, *, times: int = 1, domain: str = "shop.test") -> None:
        for _ in range(times):
            [grant] = await self.grants(self.want(domain))
            assert await self.reporting.report([Use(lease_id=grant.lease_id, outcome=outcome, response_ms=100)]) == 1

    async def one(self, sql: str, *values: Any) -> Any:
        return await self.pool.fetchval(sql, *values)


@pytest.fixture
async def broker(pool_of: PoolFactory) -> Broker:
    return Broker(await pool_of("limpet.proxy_broker"))


def statements() -> list[Any]:
    found = []
    for info in pkgutil.iter_modules(store.__path__):
        module = importlib.import_module(f"{store.__name__}.{info.name}")
        found += [
            pytest.param(sql, id=f"{info.name}.{name}")
            for name, sql in vars(module).items()
            if name.isupper() and isinstance(sql, str)
        ]
    return found


@pytest.mark.parametrize("sql", statements())
async def test_every_statement_prepares(broker: Broker, sql: str) -> None:
    async with broker.pool.acquire() as conn:
        await conn.prepare(sql)


async def test_b3_least_recently_used_first_and_never_used_before_all(broker: Broker) -> None:
    first, second, third = [await broker.add() for _ in range(3)]
    order = [(await broker.grants(broker.want()))[0].proxy_id for _ in range(4)]
    assert order == [first, second, third, first]
    new = await broker.add()
    assert (await broker.grants(broker.want()))[0].proxy_id == new


async def test_b3_priority_decides_before_last_use(broker: Broker) -> None:
    low, high = await broker.add(), await broker.add(max_concurrent_leases=2)
    await broker.assign("shop.test", low, priority=9)
    await broker.assign("shop.test", high, priority=1)
    order = [(await broker.grants(broker.want()))[0].proxy_id for _ in range(3)]
    assert order == [high, high, low]


async def test_b2_a_domain_uses_its_own_pool_and_others_the_shared_one(broker: Broker) -> None:
    own, shared = await broker.add(), await broker.add()
    await broker.assign("shop.test", own)
    answers = await broker.grants(*[broker.want(d) for d in ("shop.test", "other.test", "shop.test", "third.test")])
    assert [grant.proxy_id for grant in answers] == [own, shared, own, shared]


async def test_b2_a_disabled_own_pool_does_not_fall_back_to_the_shared_one(broker: Broker) -> None:
    own = await broker.add()
    await broker.add()
    await broker.assign("shop.test", own)
    async with broker.pool.acquire() as conn:
        await proxies.disable(conn, proxy_id=own)
    assert (await broker.refusal(broker.want())).reason == "disabled"


async def test_b3_the_country_is_kept(broker: Broker) -> None:
    await broker.add(country_code="US")
    german = await broker.add(country_code="DE")
    assert (await broker.grants(broker.want(country="DE")))[0].proxy_id == german
    assert (await broker.refusal(broker.want(country="FR"))).reason == "no_country"


async def test_nothing_at_all_is_a_refusal_with_a_time(broker: Broker) -> None:
    refusal = await broker.refusal(broker.want())
    assert refusal.reason == "no_pool"
    assert refusal.retry_at > await broker.one("SELECT now()")


async def test_the_same_attempt_gets_the_same_lease(broker: Broker) -> None:
    await broker.add()
    await broker.add()
    want = broker.want()
    [first] = await broker.grants(want)
    again, twice = await broker.grants(want, want)
    assert first == again == twice
    assert await broker.one("SELECT sum(open_leases) FROM proxies") == 1


async def test_the_same_attempt_asking_at_once_gets_one_lease(broker: Broker) -> None:
    for _ in range(4):
        await broker.add()
    want = broker.want()
    answers = await asyncio.gather(*[broker.grants(want) for _ in range(8)])
    assert len({grant.lease_id for [grant] in answers}) == 1
    assert await broker.one("SELECT sum(open_leases) FROM proxies") == 1


async def test_b3_two_brokers_never_lease_more_than_a_proxy_may_carry(broker: Broker) -> None:
    for _ in range(5):
        await broker.add(max_concurrent_leases=3)
    other = Broker(broker.pool)
    other._task = 1_000_000
    calls = [one.lease(*[one.want() for _ in range(2)]) for _ in range(10) for one in (broker, other)]
    answers = [answer for answers in await asyncio.gather(*calls) for answer in answers]
    given = Counter(answer.proxy_id for answer in answers if isinstance(answer, Grant))
    # No proxy above its limit, and none left idle because somebody else held its lock for a moment.
    assert sorted(given.values()) == [3] * 5
    assert {answer.reason for answer in answers if isinstance(answer, Refusal)} == {"busy"}


async def test_a_busy_lock_is_waited_for_and_not_a_refusal(broker: Broker) -> None:
    await broker.add()
    async with broker.pool.acquire() as conn:
        lock = conn.transaction()
        await lock.start()
        await conn.execute("SELECT FROM proxies FOR NO KEY UPDATE")
        waiting = asyncio.create_task(broker.grants(broker.want()))
        async with asyncio.timeout(10):
            while not await broker.one(SOMEBODY_WAITS):  # the condition is in another process
                await asyncio.sleep(0.01)
        await lock.rollback()
    assert len(await waiting) == 1


async def test_brokers_leasing_and_reporting_at_once_never_deadlock_and_leave_nothing_open(broker: Broker) -> None:
    for _ in range(6):
        await broker.add(max_concurrent_leases=2)
    for proxy_id in (1, 2, 3):
        await broker.assign("own.test", proxy_id)

    async def work(number: int) -> int:
        mine, given = Broker(broker.pool), 0
        mine._task = number * 1_000_000
        for n in range(15):
            answers = await mine.lease(*[mine.want(d) for d in ("own.test", "a.test", "own.test", "b.test")])
            grants = [answer for answer in answers if isinstance(answer, Grant)]
            outcome: Outcome = "success" if n % 2 else "unused"
            uses = [Use(lease_id=grant.lease_id, outcome=outcome, response_ms=5) for grant in grants]
            assert await mine.reporting.report(uses) == len(grants)
            given += len(grants)
        return given

    assert sum(await asyncio.gather(*[work(n) for n in range(1, 9)])) > 0
    assert await broker.one("SELECT count(*) FROM leases") == 0
    assert await broker.one("SELECT sum(open_leases) FROM proxies") == 0


async def test_b3_the_hourly_limit_holds_at_once_and_over_time(broker: Broker) -> None:
    proxy_id = await broker.add(max_requests_per_hour=100, max_concurrent_leases=1000)
    answers = await broker.lease(*[broker.want() for _ in range(30)])
    assert sum(isinstance(answer, Grant) for answer in answers) == 10  # the burst; 40 s for each one more
    refusal = answers[-1]
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "limited"
    wait = refusal.retry_at - await broker.one("SELECT clock_timestamp()")
    assert timedelta(seconds=35) < wait <= timedelta(seconds=40)
    given = 10
    for _ in range(90):  # 59 minutes 59 seconds more, in steps of just less than the pace
        await broker.one("UPDATE proxies SET charged_until = charged_until - interval '39.98 seconds'")
        given += sum(isinstance(a, Grant) for a in await broker.lease(broker.want(), broker.want()))
    assert 95 <= given <= 100
    assert await broker.one("SELECT open_leases FROM proxies WHERE proxy_id = $1", proxy_id) == given


async def test_an_unused_lease_stays_charged_to_the_hour(broker: Broker) -> None:
    await broker.add(max_requests_per_hour=1)
    await broker.use("unused")
    assert (await broker.refusal(broker.want())).reason == "limited"


async def test_five_failures_disable_the_pair_and_no_other_domain(broker: Broker) -> None:
    await broker.add()
    await broker.use("proxy_failed", times=5)
    refusal = await broker.refusal(broker.want())
    assert refusal.reason == "cooling"
    minutes = (refusal.retry_at - await broker.one("SELECT now()")).total_seconds() / 60
    assert minutes == pytest.approx(30, abs=1)
    await broker.use("success", domain="other.test")


async def test_ten_failures_disable_the_proxy_and_it_comes_back_on_probation(broker: Broker) -> None:
    proxy_id = await broker.add()
    await broker.use("proxy_failed", times=4, domain="a.test")
    await broker.use("proxy_failed", times=4, domain="b.test")
    await broker.use("proxy_failed", times=2, domain="c.test")
    assert (await broker.refusal(broker.want("d.test"))).reason == "cooling"
    assert await broker.one("SELECT reason FROM changes") == "failures"
    await broker.one("UPDATE proxies SET cooling_until = now()")
    answers = await broker.lease(broker.want("d.test"), broker.want("e.test"))
    assert [isinstance(answer, Grant) for answer in answers] == [True, False]
    assert isinstance(answers[0], Grant)
    await broker.reporting.report([Use(lease_id=answers[0].lease_id, outcome="success", response_ms=50)])
    assert len(await broker.grants(broker.want("d.test"), broker.want("e.test"))) == 2
    assert await broker.one("SELECT failure_count FROM proxies WHERE proxy_id = $1", proxy_id) == 10


async def test_a_success_never_undoes_a_persons_decision(broker: Broker) -> None:
    proxy_id = await broker.add()
    [grant] = await broker.grants(broker.want())
    async with broker.pool.acquire() as conn:
        await proxies.disable(conn, proxy_id=proxy_id)
    await broker.reporting.report([Use(lease_id=grant.lease_id, outcome="success", response_ms=1)])
    assert (await broker.refusal(broker.want())).reason == "disabled"


async def test_reporting_twice_changes_nothing(broker: Broker) -> None:
    await broker.add()
    [grant] = await broker.grants(broker.want())
    use = Use(lease_id=grant.lease_id, outcome="success", response_ms=100)
    failed = replace(use, outcome="proxy_failed")
    assert await broker.reporting.report([use, failed]) == 1
    before = await broker.pool.fetchrow("SELECT * FROM proxies")
    assert await broker.reporting.report([failed, use]) == 0
    assert before == await broker.pool.fetchrow("SELECT * FROM proxies")
    assert before is not None
    assert (before["success_count"], before["failure_count"], before["open_leases"]) == (1, 0, 0)
    assert await broker.one("SELECT success_count FROM pairs") == 1


async def test_b10_callers_that_are_served_together_keep_their_own_leases_and_counts(broker: Broker) -> None:
    await broker.add()
    shared, mine, theirs = broker.want(), broker.want(), broker.want()
    first, second = await broker.leasing.lease_many([([shared, mine], "one"), ([theirs, shared], "other, {two}")])
    grants = [answer for answer in (*first, *second) if isinstance(answer, Grant)]
    assert len(grants) == 4
    assert grants[0] == grants[3]  # the same attempt has one lease, whoever asks for it
    rows = await broker.pool.fetch("SELECT holder FROM leases WHERE task_id <> $1 ORDER BY task_id", shared.task_id)
    assert [row["holder"] for row in rows] == ["one", "other, {two}"]
    uses = [Use(lease_id=grant.lease_id, outcome="success", response_ms=9) for grant in grants]
    assert await broker.reporting.report_many([uses[:2], uses[2:], uses]) == [2, 1, 0]
    assert await broker.one("SELECT success_count FROM proxies") == 3
    assert await broker.one("SELECT open_leases FROM proxies") == 0


async def test_reports_in_one_call_count_in_their_order(broker: Broker) -> None:
    await broker.add()
    grants = await broker.grants(*[broker.want() for _ in range(5)])
    outcomes: list[Outcome] = ["proxy_failed", "proxy_failed", "success", "proxy_failed", "unused"]
    uses = [Use(lease_id=g.lease_id, outcome=o, response_ms=9) for g, o in zip(grants, outcomes, strict=True)]
    assert await broker.reporting.report(uses) == 5
    row = await broker.pool.fetchrow("SELECT consecutive_failures, failure_count, success_count FROM proxies")
    assert row is not None
    assert tuple(row) == (1, 3, 1)


async def test_b3_a_lease_of_a_dead_holder_comes_back_without_blame(broker: Broker) -> None:
    await broker.add(max_concurrent_leases=1)
    [grant] = await broker.grants(broker.want())
    assert (await broker.refusal(broker.want())).reason == "busy"
    assert await broker.expiry.expire() == 0
    await broker.one("UPDATE leases SET expires_at = now()")
    assert await broker.expiry.expire() == 1
    assert await broker.reporting.report([Use(lease_id=grant.lease_id, outcome="proxy_failed", response_ms=1)]) == 0
    assert await broker.one("SELECT failure_count FROM proxies") == 0
    assert len(await broker.grants(broker.want())) == 1


async def test_a_removed_proxy_takes_its_leases_with_it(broker: Broker) -> None:
    proxy_id = await broker.add()
    [grant] = await broker.grants(broker.want())
    async with broker.pool.acquire() as conn:
        assert await proxies.remove(conn, proxy_id=proxy_id)
    assert await broker.reporting.report([Use(lease_id=grant.lease_id, outcome="success", response_ms=1)]) == 0


async def test_a_password_no_key_opens_sets_its_proxy_aside_and_spares_the_others(broker: Broker) -> None:
    lost, good = await broker.add(), await broker.add(username="u")
    stranger = Vault(sealing_key())
    async with broker.pool.acquire() as conn:
        await proxies.set_password(conn, proxy_id=lost, sealed=stranger.seal("x", proxy_id=lost))
        await proxies.set_password(conn, proxy_id=good, sealed=VAULT.seal("p:w", proxy_id=good))
    [grant] = await broker.grants(broker.want())
    assert (grant.proxy_id, grant.username, grant.password) == (good, "u", "p:w")
    assert "p:w" not in repr(grant)


async def test_b10_a_hundred_wants_cost_a_handful_of_statements(database: Database) -> None:
    ran: list[str] = []

    def note(query: Any) -> None:
        ran.append(query.query)

    async def tell(conn: Any) -> None:
        conn.add_query_logger(note)

    async with asyncpg.create_pool(await database("limpet.proxy_broker"), min_size=1, setup=tell) as pool:
        broker = Broker(pool)
        for n in range(40):
            proxy_id = await broker.add()
            if n < 20:
                await broker.assign(f"own{n % 4}.test", proxy_id)
        await broker.use("success")  # the driver asks about types once
        wants = [broker.want(f"own{n % 4}.test" if n % 2 else f"s{n % 3}.test") for n in range(100)]
        ran.clear()
        grants = await broker.grants(*wants)
        leased = list(ran)
        uses = [Use(lease_id=grant.lease_id, outcome="success", response_ms=1) for grant in grants]
        ran.clear()
        assert await broker.reporting.report(uses) == 100
        reported = list(ran)
    assert 0 < len(leased) <= 12, leased
    assert 0 < len(reported) <= 12, reported
