"""The cheapest way first: direct, datacenter, residential, and back down by single probes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from limpet.proxy_broker.lease import Grant
from tests.conftest import PoolFactory
from tests.support.asking import ask, proxies_of, want
from tests.support.brokering import Brokering

TIERS = ("direct", "datacenter", "residential")
CHEAP, DEAR = 1, 2


@pytest.fixture
async def broker(pool_of: PoolFactory) -> Brokering:
    made = Brokering(await pool_of("limpet.proxy_broker"))
    assert await made.add(kind="datacenter", max_concurrent_leases=2) == CHEAP
    assert await made.add(kind="residential") == DEAR
    await made.decide(tiers=TIERS)
    return made


async def reach(broker: Brokering, tier: str, *, probe: str = "1 hour") -> None:
    await broker.one(
        "INSERT INTO domain_states (domain, tier, tier_probe_at) VALUES ('shop.test', $1, now() + $2::text::interval)"
        " ON CONFLICT (domain) DO UPDATE SET tier = excluded.tier, tier_probe_at = excluded.tier_probe_at",
        tier,
        probe,
    )


async def test_b3_direct_is_leased_only_where_it_is_allowed_and_counts_against_no_proxy(broker: Brokering) -> None:
    [direct, proxied] = await ask(broker, want(direct_allowed=True), want())
    assert isinstance(direct, Grant)
    assert isinstance(proxied, Grant)
    assert (direct.direct, direct.proxy_id, direct.host) == (True, 0, "")
    assert (proxied.direct, proxied.proxy_id) == (False, CHEAP)
    assert await broker.one("SELECT count(*) FROM leases WHERE proxy_id IS NULL") == 1
    assert await broker.one("SELECT sum(open_leases) FROM proxies") == 1


async def test_b3_asking_again_for_a_direct_lease_gets_the_same(broker: Brokering) -> None:
    asked = want(direct_allowed=True)
    assert await ask(broker, asked) == await ask(broker, asked)


async def test_b3_a_busy_tier_is_waited_for_and_not_passed_over(broker: Brokering) -> None:
    assert await proxies_of(broker, want(), want(), want()) == [CHEAP, CHEAP, "busy"]


async def test_b3_a_tier_without_a_proxy_is_passed_over(broker: Brokering) -> None:
    await broker.one("UPDATE proxies SET operator_disabled = true WHERE proxy_id = $1", CHEAP)
    assert await proxies_of(broker, want()) == [DEAR]


async def test_b3_a_domain_uses_the_tier_that_it_has_reached(broker: Brokering) -> None:
    await reach(broker, "residential")
    assert await proxies_of(broker, want(direct_allowed=True), want()) == [DEAR, DEAR]


async def test_b3_a_policy_of_direct_alone_serves_nobody_who_must_not_go_direct(broker: Brokering) -> None:
    await broker.decide(tiers=("direct",))
    assert await proxies_of(broker, want(), want(direct_allowed=True)) == ["no_match", 0]


async def test_b4_one_lease_alone_tries_the_cheaper_tier_when_its_time_has_come(broker: Brokering) -> None:
    await reach(broker, "residential", probe="-1 second")
    calls: list[list[Any]] = await asyncio.gather(*[proxies_of(broker, want(), want()) for _ in range(4)])
    assert sorted(proxy_id for answers in calls for proxy_id in answers) == [CHEAP, *[DEAR] * 7]
    assert await broker.one("SELECT proxy_id FROM leases WHERE probe = 'tier'") == CHEAP
    assert await broker.one("SELECT tier_probe_at > now() + interval '30 seconds' FROM domain_states")


async def test_b4_a_probe_goes_direct_only_for_a_request_that_may(broker: Brokering) -> None:
    await reach(broker, "datacenter", probe="-1 second")
    assert await proxies_of(broker, want()) == [CHEAP]
    assert await proxies_of(broker, want(), want(direct_allowed=True)) == [CHEAP, 0]
    assert await broker.one("SELECT probe FROM leases WHERE proxy_id IS NULL") == "tier"


async def test_b4_a_probe_that_finds_no_proxy_uses_the_tier_in_use(broker: Brokering) -> None:
    await reach(broker, "residential", probe="-1 second")
    await broker.one("UPDATE proxies SET cooling_until = now() + interval '1 hour' WHERE proxy_id = $1", CHEAP)
    assert await proxies_of(broker, want()) == [DEAR]
    assert await broker.one("SELECT probe FROM leases") == ""
