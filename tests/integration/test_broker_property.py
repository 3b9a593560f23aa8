"""Whatever fetchers, people and time do, in whatever order: no limit passed, no counter wrong, nobody's word undone."""

from __future__ import annotations

import asyncio
import socket
from collections import defaultdict
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import uuid4

import asyncpg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from limpet.cli.local.postgres import Postgres
from limpet.kit.migrate import migrate
from limpet.kit.pg import Pool, open_pool
from limpet.proxy_broker.blame import Outcome, Threshold, Use
from limpet.proxy_broker.lease import Grant, Want
from limpet.proxy_broker.store import proxies
from tests.support.brokering import Brokering

T = TypeVar("T")
EXAMPLES, STEPS = 20, 40
# Low, so that a short run reaches cool-downs and probations.
PROXY = Threshold(failures=4, cooldown=timedelta(hours=1))
PAIR = Threshold(failures=3, cooldown=timedelta(minutes=30))
DOMAINS = ("own.test", "a.test", "b.test")
TABLES = "proxies, pairs, leases, changes, policies, domain_states, stickies"
OUTCOMES: tuple[Outcome, ...] = (
    "success",
    "success",
    "proxy_failed",
    "proxy_failed",
    "blocked",
    "site_failed",
    "unused",
)
PROXIES = st.integers(0, 6)
TIERED = {"tiers": ("direct", "datacenter", "residential"), "wave_proxies": 2}
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"strategy": "sticky"},
    {"strategy": "weighted", "pair_failures": 2},
    TIERED,
    {"block_cooldown": timedelta(0), "pair_cooldown": timedelta(minutes=1)},
)
HOUR = timedelta(hours=1)
# Time passes by everything that has happened being longer ago.
EARLIER = (
    "UPDATE proxies SET cooling_until = cooling_until - $1::interval, relapsed_at = relapsed_at - $1::interval,"
    " charged_until = charged_until - $1::interval, shared_at = shared_at - $1::interval",
    "UPDATE pairs SET cooling_until = cooling_until - $1::interval, relapsed_at = relapsed_at - $1::interval,"
    " blocked_until = blocked_until - $1::interval, shared_at = shared_at - $1::interval",
    "UPDATE leases SET expires_at = expires_at - $1::interval",
    "UPDATE stickies SET kept_until = kept_until - $1::interval",
    "UPDATE domain_states SET held_until = held_until - $1::interval, wave_began_at = wave_began_at - $1::interval,"
    " tier_changed_at = tier_changed_at - $1::interval, tier_probe_at = tier_probe_at - $1::interval",
)
UNAVAILABLE = """
    SELECT proxy.proxy_id, asked.domain
      FROM proxies AS proxy CROSS JOIN unnest($1::text[]) AS asked (domain)
      LEFT JOIN pairs AS pair ON pair.proxy_id = proxy.proxy_id AND pair.domain = asked.domain
     WHERE proxy.operator_disabled OR pair.operator_disabled
        OR greatest(proxy.cooling_until, pair.cooling_until, pair.blocked_until) > clock_timestamp()
"""
# Whatever the machine set aside has a time at which it comes back.
FOR_EVER = """
    SELECT 'proxy ' || proxy_id FROM proxies WHERE cooling_until > now() + interval '25 h'
     UNION ALL
    SELECT 'pair ' || proxy_id FROM pairs
     WHERE greatest(cooling_until, blocked_until) > now() + interval '25 h'
     UNION ALL
    SELECT 'domain ' || domain FROM domain_states WHERE greatest(held_until, tier_probe_at) > now() + interval '25 h'
"""


@dataclass
class Counts:
    success: int = 0
    failure: int = 0
    block: int = 0
    bytes: int = 0
    # Proxies only: a pair's are forgiven with their wave.
    in_a_row: int = 0


@dataclass
class Model:
    """What the tables must say."""

    # Lease to proxy, domain and what it probes.
    open: dict[int, tuple[int | None, str, str]] = field(default_factory=dict)
    ever: list[int] = field(default_factory=list)
    proxies: dict[int, Counts] = field(default_factory=lambda: defaultdict(Counts))
    pairs: dict[tuple[str, int], Counts] = field(default_factory=lambda: defaultdict(Counts))
    disabled: set[int] = field(default_factory=set)
    disabled_pairs: set[tuple[str, int]] = field(default_factory=set)
    given: dict[int, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    passed: timedelta = timedelta(0)
    tasks: int = 0

    def used(self, use: Use) -> bool:
        if use.lease_id not in self.open:
            return False
        proxy_id, domain, probe = self.open.pop(use.lease_id)
        if proxy_id is None:
            return True
        failed, blocked = use.outcome == "proxy_failed", use.outcome == "blocked"
        if probe and (failed or (blocked and probe != "proxy")):
            return True
        proxy, pair = self.proxies[proxy_id], self.pairs[domain, proxy_id]
        for counts in (proxy, pair):
            counts.success += use.outcome == "success"
            counts.block += blocked
            counts.bytes += use.byte_count
        proxy.failure += failed
        pair.failure += failed or blocked
        proxy.in_a_row = 0 if use.outcome in ("success", "site_failed") else proxy.in_a_row + failed
        return True


class Counters(RuleBasedStateMachine):
    """Set by the test before it runs."""

    runner: asyncio.Runner
    pool: Pool
    listening: socket.socket
    well: int
    dead: int

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def sql(self, statement: str, *values: Any) -> Any:
        return self.run(self.pool.fetch(statement, *values))

    @initialize(limit=st.sampled_from([None, 60]), most=st.integers(1, 3))
    def start(self, *, limit: int | None, most: int) -> None:
        self.sql(f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE")
        self.broker = Brokering(self.pool, proxy=PROXY, pair=PAIR)
        self.model = Model()
        self.limit, self.most = limit, most
        for n in range(7):
            kind = "residential" if n % 3 == 2 else "datacenter"
            self.add(kind)
            if n < 3:
                self.run(self.broker.assign("own.test", n + 1))
        self.decide(domain="b.test", policy=TIERED)

    def add(self, kind: str) -> None:
        values: dict[str, Any] = {"max_requests_per_hour": self.limit, "max_concurrent_leases": self.most}
        self.model.tasks += 1
        self.run(self.broker.add(host="127.0.0.1", port=self.well, username=str(self.model.tasks), kind=kind, **values))

    def proxy(self, number: int) -> int | None:
        found = [row["proxy_id"] for row in self.sql("SELECT proxy_id FROM proxies ORDER BY 1")]
        return found[number % len(found)] if found else None

    @rule(
        domains=st.lists(st.sampled_from(DOMAINS), min_size=1, max_size=6), direct=st.booleans(), session=st.booleans()
    )
    def lease(self, *, domains: list[str], direct: bool, session: bool) -> None:
        self.given_now(domains, direct=direct, session=session)

    @rule(
        domain=st.sampled_from(DOMAINS),
        outcome=st.sampled_from(["success", "proxy_failed", "proxy_failed", "blocked"]),
        count=st.sampled_from([1, 1, 2, 12]),
        direct=st.booleans(),
    )
    def crawl(self, *, domain: str, outcome: Outcome, count: int, direct: bool) -> None:
        """Leases that all end the same way, at once."""
        given = self.given_now([domain] * count, direct=direct, session=False)
        uses = [Use(lease_id=lease_id, outcome=outcome, response_ms=9, byte_count=7) for lease_id in given]
        expected = sum([self.model.used(use) for use in uses])
        assert self.run(self.broker.reporting.report(uses)) == expected == len(given)

    @rule(domain=st.sampled_from(DOMAINS), outcome=st.sampled_from(OUTCOMES))
    def fall_ill_and_return(self, *, domain: str, outcome: Outcome) -> None:
        """Everything of a domain fails until it is set aside, rests, and is tried again."""
        for _ in range(4):
            self.crawl(domain=domain, outcome="proxy_failed", count=12, direct=False)
        self.all_rest()
        self.crawl(domain=domain, outcome=outcome, count=12, direct=False)

    @rule(domain=st.sampled_from(DOMAINS))
    def be_refused_once(self, *, domain: str) -> None:
        """One block is not the domain's fault; then as many as there are want a proxy."""
        self.crawl(domain=domain, outcome="success", count=1, direct=False)
        self.crawl(domain=domain, outcome="blocked", count=1, direct=False)
        self.crawl(domain=domain, outcome="success", count=12, direct=False)

    def given_now(self, domains: list[str], *, direct: bool, session: bool) -> list[int]:
        wants = []
        for domain in domains:
            self.model.tasks += 1
            minute, key = timedelta(minutes=1), "s" if session else ""
            wants.append(
                Want(
                    domain=domain, country="", task_id=self.model.tasks, attempt=1, ttl=minute,
                    session_key=key, direct_allowed=direct,
                )
            )  # fmt: skip
        unavailable = {(row["proxy_id"], row["domain"]) for row in self.sql(UNAVAILABLE, list(DOMAINS))}
        held = {row["domain"] for row in self.sql("SELECT domain FROM domain_states WHERE held_until > now()")}
        answers = self.run(self.broker.leasing.lease(wants, holder="test"))
        again = self.run(self.broker.leasing.lease(wants, holder="test"))
        given = [answer.lease_id for answer in answers if isinstance(answer, Grant)]
        assert given == [b.lease_id for a, b in zip(answers, again, strict=True) if isinstance(a, Grant)]  # type: ignore[union-attr]
        now = self.run(self.broker.one("SELECT clock_timestamp()")) + self.model.passed
        for row in self.sql("SELECT lease_id, proxy_id, domain, probe FROM leases"):
            if row["lease_id"] in self.model.open:
                continue
            assert (row["proxy_id"], row["domain"]) not in unavailable
            assert row["domain"] not in held
            self.model.open[row["lease_id"]] = (row["proxy_id"], row["domain"], row["probe"])
            self.model.ever.append(row["lease_id"])
            if row["proxy_id"] is not None:
                self.model.given[row["proxy_id"]].append(now)
        assert set(given) <= set(self.model.open)
        return given

    @precondition(lambda self: self.model.ever)
    @rule(
        draws=st.lists(
            st.tuples(st.integers(0, 10_000), st.sampled_from(OUTCOMES), st.integers(0, 9)), min_size=1, max_size=12
        )
    )
    def report(self, *, draws: list[tuple[int, Outcome, int]]) -> None:
        """Of any lease there ever was, late and repeated, and of some that never were. Recent ones are likelier."""
        ever, uses = self.model.ever, []
        for number, outcome, size in draws:
            lease_id = 10**9 + number if number % 17 == 0 else ever[-1 - min(number % 12, number % len(ever))]
            uses.append(Use(lease_id=lease_id, outcome=outcome, response_ms=number % 300, byte_count=size, error="e"))
        expected = sum([self.model.used(use) for use in uses])
        assert self.run(self.broker.reporting.report(uses)) == expected

    @rule(length=st.sampled_from([timedelta(seconds=20), timedelta(minutes=6), HOUR / 2, 2 * HOUR]))
    def time_passes(self, *, length: timedelta) -> None:
        self.model.passed += length
        for statement in EARLIER:
            self.sql(statement, length)

    @rule()
    def all_rest(self) -> None:
        """Long enough for first cool-downs to end; what is probed then is on probation."""
        self.time_passes(length=2 * HOUR)
        self.leases_expire()
        self.probes(dead=False)

    @rule()
    def leases_expire(self) -> None:
        dead = {row["lease_id"] for row in self.sql("SELECT lease_id FROM leases WHERE expires_at <= now()")}
        assert self.run(self.broker.expiry.expire()) == len(dead)
        for lease_id in dead:
            del self.model.open[lease_id]
        self.run(self.broker.expiry.end_sessions())

    @rule(dead=st.booleans())
    def probes(self, *, dead: bool) -> None:
        self.sql("UPDATE proxies SET port = $1", self.dead if dead else self.well)
        before = self.sql("SELECT proxy_id FROM proxies WHERE cooling_until > now() + interval '1 minute'")
        self.probe()
        after = {row["proxy_id"] for row in self.sql("SELECT proxy_id FROM proxies WHERE cooling_until > now()")}
        assert {row["proxy_id"] for row in before} <= after

    def probe(self) -> None:
        self.run(self.broker.prober.probe())
        with suppress(BlockingIOError):  # a full queue would turn callers away
            while True:
                self.listening.accept()[0].close()

    @rule(number=PROXIES, how=st.sampled_from(["enable", "disable", "disable", "remove", "add"]))
    def operate(self, *, number: int, how: str) -> None:
        proxy_id = self.proxy(number)
        if how == "add" or proxy_id is None:
            self.add("datacenter")
            return

        async def act() -> None:
            async with self.pool.acquire() as conn:
                await {"enable": proxies.enable, "disable": proxies.disable, "remove": proxies.remove}[how](
                    conn, proxy_id=proxy_id
                )

        self.run(act())
        if how == "enable":
            self.model.disabled.discard(proxy_id)
            self.model.proxies[proxy_id].in_a_row = 0
        elif how == "disable":
            self.model.disabled.add(proxy_id)
        else:
            self.forget(proxy_id)

    def forget(self, proxy_id: int) -> None:
        model = self.model
        model.open = {key: lease for key, lease in model.open.items() if lease[0] != proxy_id}
        model.proxies.pop(proxy_id, None)
        model.pairs = defaultdict(Counts, {key: one for key, one in model.pairs.items() if key[1] != proxy_id})
        model.disabled.discard(proxy_id)
        model.disabled_pairs = {key for key in model.disabled_pairs if key[1] != proxy_id}

    @rule(number=PROXIES, domain=st.sampled_from(DOMAINS), how=st.sampled_from(["assign", "disable", "enable"]))
    def operate_on_a_pair(self, *, number: int, domain: str, how: str) -> None:
        proxy_id = self.proxy(number)
        if proxy_id is None:
            return
        if how == "assign":
            self.run(self.broker.assign("own.test", proxy_id))
            return
        changed = self.sql(
            "UPDATE pairs SET operator_disabled = $3 WHERE domain = $1 AND proxy_id = $2 RETURNING proxy_id",
            domain, proxy_id, how == "disable",
        )  # fmt: skip
        if changed and how == "disable":
            self.model.disabled_pairs.add((domain, proxy_id))
        else:
            self.model.disabled_pairs.discard((domain, proxy_id))

    @rule(domain=st.sampled_from(DOMAINS), policy=st.sampled_from(POLICIES))
    def decide(self, *, domain: str, policy: dict[str, Any]) -> None:
        self.run(self.broker.decide(domain, **policy))

    @invariant()
    def everything_adds_up(self) -> None:
        if not hasattr(self, "model"):
            return
        model = self.model
        assert {row["lease_id"] for row in self.sql("SELECT lease_id FROM leases")} == set(model.open)
        held: dict[int | None, int] = defaultdict(int)
        for proxy_id, _, _ in model.open.values():
            held[proxy_id] += 1
        for row in self.sql("SELECT * FROM proxies"):
            proxy_id, counts = row["proxy_id"], model.proxies[row["proxy_id"]]
            assert row["open_leases"] == held[proxy_id] <= row["max_concurrent_leases"]
            assert (row["success_count"], row["failure_count"]) == (counts.success, counts.failure)
            assert (row["block_count"], row["consecutive_failures"]) == (counts.block, counts.in_a_row)
            assert row["operator_disabled"] == (proxy_id in model.disabled)
        for row in self.sql("SELECT * FROM pairs"):
            key, counts = (row["domain"], row["proxy_id"]), model.pairs[row["domain"], row["proxy_id"]]
            assert (row["success_count"], row["failure_count"]) == (counts.success, counts.failure)
            assert (row["block_count"], row["byte_count"]) == (counts.block, counts.bytes)
            assert 0 <= row["consecutive_failures"] <= counts.failure
            assert row["operator_disabled"] == (key in model.disabled_pairs)
        assert self.sql(FOR_EVER) == []
        self.no_hour_holds_more_than_the_limit()

    def no_hour_holds_more_than_the_limit(self) -> None:
        if self.limit is None:
            return
        for times in self.model.given.values():
            assert times == sorted(times)
            for first, last in zip(times, times[self.limit :], strict=False):
                assert last - first >= HOUR - timedelta(seconds=1)

    def teardown(self) -> None:
        """Left alone, with proxies that are well again, everything that no person disabled may be used again."""
        if not hasattr(self, "model"):
            return
        self.sql("UPDATE proxies SET port = $1", self.well)
        self.time_passes(length=timedelta(hours=25))
        self.leases_expire()
        self.probe()
        self.everything_adds_up()
        ill = {row["proxy_id"] for row in self.sql("SELECT proxy_id FROM proxies WHERE cooling_until IS NOT NULL")}
        assert ill <= self.model.disabled
        unavailable = {(row["domain"], row["proxy_id"]) for row in self.sql(UNAVAILABLE, list(DOMAINS))}
        assert {key for key in unavailable if key[1] not in self.model.disabled} <= self.model.disabled_pairs


async def fresh(postgres: Postgres) -> str:
    """The address of a migrated database; the server goes when the tests have run, and the database with it."""
    name = f"property_{uuid4().hex}"
    conn = await asyncpg.connect(postgres.dsn("postgres"))
    await conn.execute(f'CREATE DATABASE "{name}"')
    await conn.close()
    await migrate(postgres.dsn(name), "limpet.proxy_broker")
    return postgres.dsn(name)


def test_b3_b4_no_order_of_calls_breaks_a_limit_a_counter_or_a_persons_word(postgres: Postgres) -> None:
    with asyncio.Runner() as runner, socket.socket() as well, socket.socket() as dead:
        well.bind(("127.0.0.1", 0))
        well.listen(128)
        well.setblocking(False)
        dead.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port, and nobody answers
        stack = AsyncExitStack()
        try:
            Counters.listening = well
            Counters.runner, Counters.well, Counters.dead = runner, well.getsockname()[1], dead.getsockname()[1]
            Counters.pool = runner.run(stack.enter_async_context(open_pool(runner.run(fresh(postgres)))))
            run_state_machine_as_test(
                Counters,
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=STEPS,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(stack.aclose())
