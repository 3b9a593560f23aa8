"""Which proxy a domain's strategy and filters choose, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from limpet.proxy_broker.lease import Grant
from tests.conftest import PoolFactory
from tests.support.asking import ask, proxies_of, refused, want
from tests.support.brokering import Brokering


@pytest.fixture
async def broker(pool_of: PoolFactory) -> Brokering:
    return Brokering(await pool_of("limpet.proxy_broker"))


async def test_b6_lru_goes_round_the_pool(broker: Brokering) -> None:
    added = [await broker.add() for _ in range(3)]
    assert [(await proxies_of(broker, want()))[0] for _ in range(6)] == added * 2


async def test_b6_a_session_keeps_its_proxy_and_others_take_others(broker: Brokering) -> None:
    first, second, third = [await broker.add() for _ in range(3)]
    await broker.decide(strategy="sticky")
    assert await proxies_of(broker, *[want(session_key=key) for key in "abab"]) == [first, second, first, second]
    assert await proxies_of(broker, want(session_key="a")) == [first]
    assert await proxies_of(broker, want(session_key="c")) == [third]
    assert await broker.one("SELECT kept_until > now() + interval '9 minutes' FROM stickies WHERE session_key = 'a'")


async def test_b6_a_session_that_was_idle_for_long_enough_starts_anew(broker: Brokering) -> None:
    first, second = await broker.add(), await broker.add()
    await broker.decide(strategy="sticky", sticky_for=timedelta(minutes=5))
    assert await proxies_of(broker, want(session_key="a")) == [first]
    await broker.one("UPDATE stickies SET kept_until = now()")
    assert await proxies_of(broker, want(session_key="a")) == [second]


async def test_b6_a_session_waits_for_its_busy_proxy(broker: Brokering) -> None:
    first = await broker.add(max_concurrent_leases=1)
    await broker.add()
    await broker.decide(strategy="sticky")
    assert await proxies_of(broker, want(session_key="a"), want(session_key="a")) == [first, "busy"]
    assert await proxies_of(broker, want(session_key="a")) == ["busy"]


@pytest.mark.parametrize(
    "fate",
    [
        "UPDATE proxies SET operator_disabled = true WHERE proxy_id = 1",
        "UPDATE proxies SET cooling_until = now() + interval '1 hour' WHERE proxy_id = 1",
        "UPDATE proxies SET max_requests_per_hour = 1, charged_until = now() + interval '1 hour' WHERE proxy_id = 1",
        "INSERT INTO pairs (domain, proxy_id, blocked_until) VALUES ('shop.test', 1, now() + interval '1 hour')",
        "DELETE FROM proxies WHERE proxy_id = 1",
    ],
    ids=["disabled", "cooling", "limited", "blocked", "gone"],
)
async def test_b6_a_session_takes_another_proxy_where_its_own_is_out_of_reach(broker: Brokering, fate: str) -> None:
    first, second = await broker.add(), await broker.add()
    await broker.decide(strategy="sticky")
    assert await proxies_of(broker, want(session_key="a")) == [first]
    await broker.one(fate)
    assert [await proxies_of(broker, want(session_key="a")) for _ in range(2)] == [[second], [second]]


async def test_b6_an_hour_keeps_one_proxy_and_the_next_takes_another(broker: Brokering) -> None:
    first, second = await broker.add(), await broker.add()
    await broker.decide(strategy="sticky", sticky_by="hour")
    assert await proxies_of(broker, want(), want(session_key="a"), want()) == [first] * 3
    assert await broker.one("SELECT kept_until = date_trunc('hour', now()) + interval '1 hour' FROM stickies")
    # Its turn would come again, were it not that of the hour before.
    await broker.one("UPDATE proxies SET last_used_at = NULL WHERE proxy_id = $1", first)
    await broker.one("UPDATE stickies SET kept_until = now()")
    await broker.expiry.end_sessions()
    assert await proxies_of(broker, want(), want()) == [second] * 2


async def test_b6_brokers_that_meet_a_new_session_at_once_agree_on_its_proxy(broker: Brokering) -> None:
    for _ in range(6):
        await broker.add()
    await broker.decide(strategy="sticky")
    answers = await asyncio.gather(*[proxies_of(broker, want(session_key="a")) for _ in range(6)])
    assert len({proxy_id for [proxy_id] in answers}) == 1


async def test_b6_weighted_prefers_what_works_and_does_not_forget_the_rest(broker: Brokering) -> None:
    good, bad = await broker.add(max_concurrent_leases=500), await broker.add(max_concurrent_leases=500)
    await broker.decide(strategy="weighted")
    await broker.use("success", good, times=3)
    await broker.use("blocked", bad)
    await broker.one("UPDATE pairs SET blocked_until = NULL, success_share = 0.2, block_share = 0.5 WHERE proxy_id = 2")
    weighted = replace(broker.leasing, chance=Random(4))
    answers = await weighted.lease([want() for _ in range(200)], holder="test")
    given = Counter(answer.proxy_id for answer in answers if isinstance(answer, Grant))
    assert given[good] > 5 * given[bad] > 0
    assert given.total() == 200


async def test_b6_weighted_gives_another_where_the_drawn_one_has_no_room(broker: Brokering) -> None:
    for _ in range(3):
        await broker.add(max_concurrent_leases=2)
    await broker.decide(strategy="weighted")
    answers = await proxies_of(broker, *[want() for _ in range(8)])
    assert sorted(map(str, answers)) == ["1", "1", "2", "2", "3", "3", "busy", "busy"]


async def test_b3_country_provider_and_kind_of_the_policy_are_kept(broker: Brokering) -> None:
    await broker.add(country_code="DE", provider="a", kind="residential")
    await broker.add(country_code="US", provider="b", kind="residential")
    fitting = await broker.add(country_code="DE", provider="b", kind="residential")
    await broker.add(country_code="DE", provider="b", kind="mobile")
    await broker.decide(country_code="DE", providers=("b",), kinds=("residential",))
    assert await proxies_of(broker, want(), want()) == [fitting] * 2
    assert await proxies_of(broker, want(country="US")) == [2], "what the request asks for goes before the policy"
    assert await proxies_of(broker, want(country="FR")) == ["no_country"]
    await broker.decide(providers=("c",))
    assert await proxies_of(broker, want()) == ["no_match"]


async def test_b5_a_blocked_pair_is_left_out_for_its_domain_alone(broker: Brokering) -> None:
    await broker.add()
    await broker.one(
        "INSERT INTO pairs (domain, proxy_id, blocked_until) VALUES ('shop.test', 1, now() + interval '1 h')"
    )
    reason, retry_at = await refused(broker, want())
    assert reason == "blocked"
    assert retry_at == (await broker.pair(1))["blocked_until"]
    assert await proxies_of(broker, want("other.test")) == [1]


async def test_b3_a_held_domain_is_refused_until_its_hold_ends(broker: Brokering) -> None:
    await broker.add()
    await broker.one(
        "INSERT INTO domain_states (domain, held_until) VALUES ('shop.test', now() + interval '5 minutes')"
    )
    held_until = await broker.one("SELECT held_until FROM domain_states")
    assert await refused(broker, want()) == ("domain_blocked", held_until)
    assert await proxies_of(broker, want("other.test")) == [1]


async def test_b8_a_spent_budget_stops_its_domain_or_its_provider_until_the_next_month(broker: Brokering) -> None:
    dear, cheap = await broker.add(provider="dear"), await broker.add(provider="cheap")
    stop = "INSERT INTO budgets (scope, name, monthly_amount, month, state) VALUES ($1, $2, 1, date_trunc('month', now()), 'stopped')"
    await broker.one(stop, "domain", "shop.test")
    await broker.one(stop, "provider", "dear")
    next_month = await broker.one("SELECT date_trunc('month', now()) + interval '1 month'")
    assert await refused(broker, want()) == ("budget", next_month)
    assert await proxies_of(broker, want("other.test"), want("other.test")) == [cheap] * 2
    await broker.one("UPDATE proxies SET operator_disabled = true WHERE proxy_id = $1", cheap)
    assert await refused(broker, want("other.test")) == ("budget", next_month)
    await broker.one("UPDATE budgets SET month = month - interval '1 month'")
    assert await proxies_of(broker, want(), want("other.test")) == [dear] * 2


async def test_b3_the_same_attempt_keeps_its_lease_although_its_domain_is_held_now(broker: Brokering) -> None:
    await broker.add()
    asked = want()
    first = await ask(broker, asked)
    await broker.one(
        "INSERT INTO domain_states (domain, held_until) VALUES ('shop.test', now() + interval '5 minutes')"
    )
    assert await ask(broker, asked) == first


async def test_b4_after_its_cooldown_a_pair_gets_one_probe_at_a_time(broker: Brokering) -> None:
    await broker.add()
    await broker.decide(pair_failures=2)
    await broker.use("proxy_failed", 1, times=2)
    assert await proxies_of(broker, want()) == ["cooling"]
    await broker.one("UPDATE pairs SET cooling_until = now()")
    assert await proxies_of(broker, want(), want()) == [1, "busy"]
    assert await broker.one("SELECT probe FROM leases") == "pair"
    assert await proxies_of(broker, want(), want("other.test")) == ["busy", 1]
