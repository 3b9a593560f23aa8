"""What reports teach about proxies, pairs and domains, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from limpet.proxy_broker.blame import Outcome, Use
from limpet.proxy_broker.lease import Grant
from limpet.proxy_broker.refusal import Refusal
from tests.conftest import Database, PoolFactory
from tests.support.brokering import Brokering

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def broker(pool_of: PoolFactory) -> Brokering:
    return Brokering(await pool_of("limpet.proxy_broker"))


async def left(broker: Brokering, moment: datetime) -> timedelta:
    """Until then, to the minute."""
    now: datetime = await broker.one("SELECT now()")
    return round((moment - now) / MINUTE) * MINUTE


async def test_b4_a_report_updates_counters_average_and_times_of_proxy_and_pair(broker: Brokering) -> None:
    proxy_id = await broker.add()
    await broker.use("success", proxy_id, byte_count=1000)
    await broker.use("proxy_failed", proxy_id, times=2, byte_count=10)
    for row in (await broker.proxy(proxy_id), await broker.pair(proxy_id)):
        assert (row["success_count"], row["failure_count"], row["consecutive_failures"]) == (1, 2, 2)
        assert row["avg_response_ms"] == 100
        assert row["last_success_at"] < row["last_failure_at"]
        assert row["success_share"] == pytest.approx(0.81, abs=0.001)
        assert row["block_share"] == 0
        assert row["shared_at"] == row["last_failure_at"]
    assert (await broker.pair(proxy_id))["byte_count"] == 1020
    await broker.use("success", proxy_id)
    assert (await broker.proxy(proxy_id))["consecutive_failures"] == 0
    assert (await broker.pair(proxy_id))["consecutive_failures"] == 0


async def test_b4_a_proxy_that_fails_for_one_domain_only_is_disabled_there_and_serves_the_others(
    broker: Brokering,
) -> None:
    bad, good = await broker.add(), await broker.add()
    for _ in range(5):
        await broker.use("proxy_failed", bad)
        await broker.use("success", bad, domain="other.test")
    pair = await broker.pair(bad)
    assert pair["cooling"]
    assert await left(broker, pair["cooling_until"]) == 30 * MINUTE
    assert (await broker.proxy(bad))["cooling_until"] is None
    answers = await broker.lease(*["shop.test"] * 4, *["other.test"] * 4)
    given = [answer.proxy_id for answer in answers if isinstance(answer, Grant)]
    assert given[:4] == [good] * 4
    assert bad in given[4:]


async def test_b4_the_policys_thresholds_go_before_the_brokers_own(broker: Brokering) -> None:
    proxy_id = await broker.add()
    await broker.decide(pair_failures=2, pair_cooldown=7 * MINUTE)
    await broker.use("proxy_failed", proxy_id)
    assert not (await broker.pair(proxy_id))["cooling"]
    await broker.use("proxy_failed", proxy_id)
    assert await left(broker, (await broker.pair(proxy_id))["cooling_until"]) == 7 * MINUTE


@pytest.mark.parametrize("probe", ["proxy", "pair"])
async def test_b4_a_failed_probe_lease_cools_for_longer_and_counts_in_no_totals(broker: Brokering, probe: Any) -> None:
    proxy_id = await broker.add()
    for domain in ("shop.test", "b.test"):
        await broker.use("proxy_failed", proxy_id, domain=domain, times=5)
    await broker.one("UPDATE proxies SET cooling_until = now() - interval '1 s'")
    await broker.one("UPDATE pairs SET cooling_until = now() - interval '1 s'")
    before = await broker.proxy(proxy_id), await broker.pair(proxy_id)
    await broker.use("proxy_failed", proxy_id, probe=probe)
    after = await broker.proxy(proxy_id), await broker.pair(proxy_id)
    for then, now in zip(before, after, strict=True):
        for column in ("success_count", "failure_count", "block_count", "consecutive_failures", "success_share"):
            assert now[column] == then[column]
    tried, other = after if probe == "proxy" else after[::-1]
    first = 60 if probe == "proxy" else 30
    assert (tried["relapses"], await left(broker, tried["cooling_until"])) == (2, 2 * first * MINUTE)
    assert not other["cooling"]
    assert (await broker.proxy(proxy_id))["open_leases"] == 0


async def test_b4_a_good_probe_lease_ends_the_probation(broker: Brokering) -> None:
    proxy_id = await broker.add()
    await broker.use("proxy_failed", proxy_id, times=10)
    await broker.one("UPDATE proxies SET cooling_until = NULL")
    await broker.use("success", proxy_id, probe="proxy")
    row = await broker.proxy(proxy_id)
    assert (row["consecutive_failures"], row["success_count"], row["failure_count"]) == (0, 1, 10)


async def test_b5_a_block_keeps_a_datacenter_proxy_from_that_domain_alone_for_half_an_hour(broker: Brokering) -> None:
    blocked, free = await broker.add(), await broker.add()
    await broker.use("blocked", blocked, error="status 403 via http://me:pa55@proxy.test:1")
    pair = await broker.pair(blocked)
    assert await left(broker, pair["blocked_until"]) == 30 * MINUTE
    assert (pair["block_count"], pair["last_error"]) == (1, "status 403 via http://proxy.test:1")
    assert pair["last_blocked_at"] == pair["last_failure_at"]
    proxy = await broker.proxy(blocked)
    assert (proxy["block_count"], proxy["failure_count"], proxy["consecutive_failures"]) == (1, 0, 0)
    await broker.use("success", blocked, domain="other.test")
    assert (await broker.pair(blocked, "other.test"))["blocked_until"] is None
    answers = await broker.lease(*["shop.test"] * 3, *["other.test"] * 3)
    given = [answer.proxy_id for answer in answers if isinstance(answer, Grant)]
    assert given[:3] == [free] * 3
    assert blocked in given[3:]
    await broker.one("UPDATE pairs SET blocked_until = now()")
    answers = await broker.lease(*["shop.test"] * 4)
    assert blocked in [answer.proxy_id for answer in answers if isinstance(answer, Grant)], "it expires by itself"


@pytest.mark.parametrize(("cooldown", "blocked"), [(timedelta(0), False), (timedelta(hours=3), True)])
async def test_b5_the_strategys_cooldown_decides_and_zero_means_zero(
    broker: Brokering, cooldown: timedelta, *, blocked: bool
) -> None:
    first, _ = await broker.add(), await broker.add()
    await broker.decide(block_cooldown=cooldown)
    await broker.use("blocked", first)
    pair = await broker.pair(first)
    assert pair["blocked"] is blocked
    assert await left(broker, pair["blocked_until"]) == cooldown


@pytest.mark.parametrize("kind", ["residential", "mobile"])
async def test_b5_other_kinds_are_not_blocklisted_but_lose_their_session(broker: Brokering, kind: str) -> None:
    home, other = await broker.add(kind=kind), await broker.add(kind=kind)
    await broker.pool.executemany(
        "INSERT INTO stickies (domain, session_key, proxy_id, kept_until) VALUES ($1, $2, $3, now() + interval '1 h')",
        [("shop.test", "a", home), ("shop.test", "b", other), ("shop.test", "c", home), ("other.test", "a", home)],
    )
    await broker.use("blocked", home)
    pair = await broker.pair(home)
    assert (pair["blocked_until"], pair["block_count"]) == (None, 1)
    kept = await broker.pool.fetch("SELECT domain, session_key FROM stickies ORDER BY 1, 2")
    assert [tuple(row) for row in kept] == [("other.test", "a"), ("shop.test", "b")]


async def test_b5_a_wave_of_403_over_k_proxies_trips_the_domain_and_not_the_proxies(broker: Brokering) -> None:
    wave = [await broker.add() for _ in range(3)]
    calm = [await broker.add() for _ in range(2)]
    with capture_logs() as logs:
        await broker.use("blocked", wave[0], times=6)  # enough to cool the pair, on its own
        await broker.use("blocked", wave[1])
        assert (await broker.pair(wave[0]))["cooling"]
        assert (await broker.pair(wave[1]))["blocked"]
        assert not (await broker.state())["held"]
        await broker.use("blocked", wave[2], error="status 403")
    state = await broker.state()
    assert (state["held"], state["holds"], state["wave"]) == (True, 1, [])
    assert await left(broker, state["held_until"]) == 5 * MINUTE
    for proxy_id in wave:
        pair = await broker.pair(proxy_id)
        assert (pair["blocked_until"], pair["cooling_until"], pair["consecutive_failures"]) == (None, None, 0)
        assert pair["block_count"] >= 1
        assert (await broker.proxy(proxy_id))["cooling_until"] is None
    assert [line["event"] for line in logs if line["event"] == "domain_held"] == ["domain_held"]
    answers = await broker.lease(*["other.test"] * 5)
    assert {answer.proxy_id for answer in answers if isinstance(answer, Grant)} == {*wave, *calm}
    [refusal] = await broker.lease("shop.test")
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.retry_at) == ("domain_blocked", state["held_until"])


async def test_b5_late_blocks_in_a_hold_are_forgiven_and_a_success_after_it_begins_anew(broker: Brokering) -> None:
    proxy_ids = [await broker.add() for _ in range(4)]
    late = await broker.opened(proxy_ids[3])
    await broker.use("blocked", *proxy_ids[:3])
    await broker.reporting.report([Use(lease_id=late, outcome="blocked", response_ms=1)])
    pair = await broker.pair(proxy_ids[3])
    assert (pair["blocked_until"], pair["consecutive_failures"], pair["block_count"]) == (None, 0, 1)
    await broker.one("UPDATE domain_states SET held_until = now()")
    await broker.use("blocked", *proxy_ids[:3])
    assert (await broker.state())["holds"] == 2
    assert await left(broker, (await broker.state())["held_until"]) == 10 * MINUTE
    await broker.one("UPDATE domain_states SET held_until = now()")
    await broker.use("success", proxy_ids[0])
    assert ((await broker.state())["holds"], (await broker.state())["held_until"]) == (0, None)


async def test_b5_a_success_between_the_blocks_makes_no_wave(broker: Brokering) -> None:
    proxy_ids = [await broker.add() for _ in range(4)]
    await broker.use("blocked", *proxy_ids[:2])
    await broker.use("success", proxy_ids[3])
    await broker.use("blocked", proxy_ids[2])
    assert ((await broker.state())["wave"], (await broker.state())["held_until"]) == ([proxy_ids[2]], None)
    assert (await broker.pair(proxy_ids[0]))["blocked"]


async def test_b5_all_proxies_of_a_small_pool_refused_are_a_wave_too(broker: Brokering) -> None:
    own = [await broker.add() for _ in range(2)]
    await broker.add()  # shared: of no use to a domain with its own pool
    await broker.assign("shop.test", *own)
    await broker.use("blocked", own[0])
    assert not (await broker.state())["held"]
    await broker.use("blocked", own[1])
    assert (await broker.state())["held"]
    assert not (await broker.pair(own[0]))["blocked"]


async def test_b5_the_policy_says_how_many_are_a_wave(broker: Brokering) -> None:
    proxy_ids = [await broker.add() for _ in range(4)]
    await broker.decide(wave_proxies=2)
    await broker.use("blocked", *proxy_ids[:2])
    assert (await broker.state())["held"]


async def test_b5_blocks_reported_at_once_by_many_trip_the_domain_once_and_forgive_all(broker: Brokering) -> None:
    proxy_ids = [await broker.add() for _ in range(8)]
    lease_ids = [await broker.opened(proxy_id) for proxy_id in proxy_ids]
    uses = [Use(lease_id=lease_id, outcome="blocked", response_ms=1) for lease_id in lease_ids]
    async with asyncio.timeout(20):
        assert sum(await asyncio.gather(*[broker.reporting.report([use]) for use in uses])) == 8
    assert (await broker.state())["holds"] == 1
    assert await broker.one("SELECT count(*) FROM pairs WHERE blocked_until > now() OR consecutive_failures > 0") == 0
    assert await broker.one("SELECT sum(block_count) FROM pairs") == 8


async def test_b6_a_wave_climbs_to_the_next_tier_that_has_a_proxy(broker: Brokering) -> None:
    cheap = [await broker.add() for _ in range(4)]
    home = [await broker.add(kind="residential") for _ in range(3)]
    await broker.decide(tiers=("direct", "datacenter", "residential"))
    with capture_logs() as logs:
        await broker.use("blocked", None)
        assert (await broker.state())["tier"] == "datacenter"
        await broker.use("blocked", *cheap[:3])
    state = await broker.state()
    assert (state["tier"], state["held_until"], state["wave"]) == ("residential", None, [])
    assert await left(broker, state["tier_probe_at"]) == 60 * MINUTE
    assert await broker.one("SELECT count(*) FROM pairs WHERE blocked_until > now() OR consecutive_failures > 0") == 0
    assert [line["tier"] for line in logs if line["event"] == "tier_climbed"] == ["datacenter", "residential"]
    await broker.use("blocked", *home)
    assert ((await broker.state())["tier"], (await broker.state())["held"]) == ("residential", True)


async def test_b6_a_domain_does_not_climb_to_a_tier_without_a_proxy(broker: Brokering) -> None:
    cheap = [await broker.add() for _ in range(3)]
    await broker.decide(tiers=("datacenter", "residential"))
    await broker.use("blocked", *cheap)
    assert ((await broker.state())["tier"], (await broker.state())["held"]) == ("", True)


async def test_b6_a_tier_probe_brings_the_domain_down_or_puts_the_next_one_off(broker: Brokering) -> None:
    cheap = [await broker.add() for _ in range(3)]
    await broker.add(kind="residential")
    await broker.decide(tiers=("datacenter", "residential"))
    await broker.use("blocked", *cheap)
    await broker.use("blocked", cheap[0], probe="tier")
    assert await left(broker, (await broker.state())["tier_probe_at"]) == 120 * MINUTE
    pair = await broker.pair(cheap[0])
    assert (pair["block_count"], pair["blocked_until"], pair["consecutive_failures"]) == (1, None, 0)
    with capture_logs() as logs:
        await broker.use("success", cheap[0], probe="tier")
    state = await broker.state()
    assert (state["tier"], state["tier_probe_at"]) == ("datacenter", None)
    assert [line["event"] for line in logs] == ["tier_lowered"]


async def test_b6_a_direct_lease_teaches_the_domain_alone(broker: Brokering) -> None:
    proxy_id = await broker.add()
    await broker.decide(tiers=("direct", "datacenter"))
    before = await broker.proxy(proxy_id)
    for outcome in ("success", "proxy_failed", "site_failed", "unused"):
        await broker.use(outcome, None)
    assert await broker.proxy(proxy_id) == before
    assert await broker.one("SELECT count(*) FROM leases") == 0
    assert await broker.one("SELECT count(*) FROM pairs") == 0
    assert await broker.state() is None


async def test_expired_direct_leases_and_sessions_go_without_a_trace(broker: Brokering) -> None:
    proxy_id = await broker.add()
    lease_ids = [await broker.opened(None), await broker.opened(proxy_id)]
    for session, age in (("old", "-1 s"), ("new", "1 h")):
        await broker.one(
            "INSERT INTO stickies VALUES ('shop.test', $1, $2, now() + $3::text::interval)", session, proxy_id, age
        )
    await broker.one("UPDATE leases SET expires_at = now()")
    assert await broker.expiry.expire() == 2
    assert await broker.expiry.end_sessions() == 1
    assert await broker.one("SELECT session_key FROM stickies") == "new"
    assert (await broker.proxy(proxy_id))["open_leases"] == 0
    uses = [Use(lease_id=lease_id, outcome="blocked", response_ms=1) for lease_id in lease_ids]
    assert await broker.reporting.report(uses) == 0


async def test_a_call_of_good_uses_writes_no_domain_state_and_its_size_adds_no_statement(database: Database) -> None:
    ran: list[str] = []

    def note(query: Any) -> None:
        ran.append(query.query)

    async def tell(conn: Any) -> None:
        conn.add_query_logger(note)

    async with asyncpg.create_pool(await database("limpet.proxy_broker"), min_size=1, max_size=2, setup=tell) as pool:
        broker = Brokering(pool)
        proxy_ids = [await broker.add(max_concurrent_leases=100) for _ in range(10)]
        await broker.use("success", proxy_ids[0])  # the driver asks about types once

        async def statements(outcome: Outcome, count: int) -> int:
            lease_ids = [await broker.opened(proxy_ids[n % 10], f"d{n % 7}.test") for n in range(count)]
            ran.clear()
            uses = [Use(lease_id=lease_id, outcome=outcome, response_ms=5) for lease_id in lease_ids]
            assert await broker.reporting.report(uses) == count
            return len(ran)

        # One of them is the reset by which the driver takes its connection back.
        assert await statements("success", 1) == await statements("success", 200) <= 9
        assert await broker.one("SELECT count(*) FROM domain_states") == 0
        assert await statements("blocked", 200) <= 18
