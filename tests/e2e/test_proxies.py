"""Crawls through real proxies, judged by the proxies' own logs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from limpet.cli.local.platform import Platform
from tests.e2e.conftest import QUICK
from tests.support.door import Door
from tests.support.forward_proxy import ForwardProxy, forward_proxy
from tests.support.proxy_pool import add_proxy, assign, pool, uses
from tests.support.real_proxy import Mood
from tests.support.site.plain import Plain
from tests.support.socks_proxy import socks_proxy
from tests.support.waiting import until

FAILURES = 3
FEW = {"LIMPET_PROXY_FAILURES": str(FAILURES), "LIMPET_PAIR_FAILURES": str(FAILURES)}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One of its own: brokers are killed here, and few failures disable a proxy."""
    with Platform(tmp_path_factory.mktemp("limpet"), fetchers=2, env={**QUICK, **FEW}) as running:
        yield running


@pytest.fixture
async def proxies() -> AsyncIterator[list[ForwardProxy]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(forward_proxy()) for _ in range(4)]


async def domain(door: Door, site: Plain, *, at_once: int = 4, policy: str = "required") -> None:
    await door.make_domain(
        site.host,
        crawl_delay_seconds=0,
        max_concurrent_requests=at_once,
        proxy_policy=policy,
        breaker_failures=1000,
        breaker_rate=1.0,
    )


async def test_b6_lru_uses_the_proxies_in_turn(door: Door, proxies: list[ForwardProxy]) -> None:
    async with Plain(24) as site:
        await domain(door, site, at_once=1)
        await pool(door, site.host, *proxies)
        await door.submit(site.page_urls(), batch="turns")
        await door.completed("turns", 24, seconds=60)
        order = [use.proxy.port for use in uses(*proxies)]
        assert len(order) == 24
        assert len(site.log.of(prefix="/p/")) == 24, "nothing went past the proxies"
        for start in range(len(order) - 3):
            assert len(set(order[start : start + 4])) == 4, f"not in turn: {order}"


async def test_b1_http_and_socks5_proxies_are_used_with_and_without_credentials(door: Door) -> None:
    async with (
        Plain(24) as site,
        forward_proxy() as plain,
        forward_proxy(credentials="hanna:w4lrus") as named,
        socks_proxy() as socks,
        socks_proxy(credentials="sven:c0ral") as named_socks,
    ):
        every = (plain, named, socks, named_socks)
        await domain(door, site, at_once=1)
        await pool(door, site.host, *every)
        await door.submit(site.page_urls(), batch="kinds")
        await door.completed("kinds", 24, seconds=60)
        assert {use.user for use in uses(plain)} == {""}
        assert {use.user for use in uses(named)} == {"hanna"}
        assert {passed.user for passed in socks.log} == {""}
        assert {passed.user for passed in named_socks.log} == {"sven"}
        assert {passed.target for passed in (*socks.log, *named_socks.log)} == {site.host}
        assert [proxy.refused for proxy in every] == [[]] * 4
        # Four in turn: half of the pages went through the two that speak HTTP.
        assert len(uses(plain, named)) == 12
        assert len(site.log.of(prefix="/p/")) == 24


async def test_b3_a_proxy_is_never_used_above_its_hourly_limit(door: Door, proxies: list[ForwardProxy]) -> None:
    """40 an hour may come as 4 at once and one every 100 seconds."""
    limited, free = proxies[:2]
    async with Plain(40) as site:
        await domain(door, site)
        await assign(
            door,
            site.host,
            [await add_proxy(door, limited, max_requests_per_hour=40), await add_proxy(door, free)],
        )
        await door.submit(site.page_urls(), batch="limited")
        await door.completed("limited", 40, seconds=60)
        assert 1 <= len(limited.log) <= 4
        assert len(uses(limited, free)) == 40


async def test_b3_a_proxy_never_has_more_requests_at_once_than_it_may(door: Door, proxies: list[ForwardProxy]) -> None:
    one, two = proxies[:2]
    async with Plain(40, latency=0.1) as site:
        await domain(door, site, at_once=20)
        await assign(
            door,
            site.host,
            [
                await add_proxy(door, one, max_concurrent_leases=1),
                await add_proxy(door, two, max_concurrent_leases=2),
            ],
        )
        await door.submit(site.page_urls(), batch="narrow")
        await door.completed("narrow", 40, seconds=120)
        assert (one.most_at_once, two.most_at_once) == (1, 2)
        assert len(uses(one, two)) == 40


@pytest.mark.parametrize("mood", [Mood.CLOSE, Mood.REFUSE])
async def test_b4_a_dead_proxy_is_disabled_and_the_others_go_on(
    door: Door, proxies: list[ForwardProxy], mood: Mood
) -> None:
    dead, *others = proxies
    dead.mood = mood
    async with Plain(40) as site:
        await domain(door, site, at_once=2)
        proxy_ids = await pool(door, site.host, *proxies)
        await door.submit(site.page_urls(), batch=f"dead-{mood}")
        await door.completed(f"dead-{mood}", 40, seconds=90)
        # Those in flight when the last failure is reported still come.
        assert FAILURES <= dead.connections <= FAILURES + 2
        assert sorted(use.path for use in uses(*others)) == sorted(f"/p/{number}" for number in range(40))
        states = {number: await door.get(f"/api/admin/proxies/{number}") for number in proxy_ids}
        assert [states[number]["cooling_until"] is not None for number in proxy_ids] == [True, False, False, False]


async def test_f2_while_the_broker_is_dead_required_waits_and_preferred_goes_direct_and_nothing_is_lost(
    door: Door, proxies: list[ForwardProxy]
) -> None:
    first, second, third, fourth = proxies
    async with Plain(60, latency=0.02) as strict, Plain(60, latency=0.02) as easy:
        await domain(door, strict, at_once=2)
        await domain(door, easy, at_once=2, policy="preferred")
        await pool(door, strict.host, first, second)
        await pool(door, easy.host, third, fourth)
        await door.submit(strict.page_urls(), batch="strict")
        await door.submit(easy.page_urls()[:30], batch="easy")
        await door.completed("strict", 10, seconds=60)
        await door.completed("easy", 30, seconds=60)
        assert len(uses(third, fourth)) == 30
        back = threading.Event()

        def stay_dead() -> None:
            back.wait(120)

        door.platform.kill("proxy-broker", before_restart=stay_dead)
        try:

            async def is_open() -> Any:
                found = (await door.get("/health"))["errors"]["circuit_breakers"]
                return [breaker for breaker in found if breaker["state"] == "OPEN"]

            assert (await until(is_open, seconds=30, every=0.2))[0]["name"] == "proxy-broker"
            reached = len(strict.log)
            await door.submit(easy.page_urls()[30:], batch="direct")
            await door.completed("direct", 30, seconds=60)
            assert len(uses(third, fourth)) == 30, "the rest went past the proxies"
            assert len(strict.log) == reached, "and who needs a proxy waited all the while"
        finally:
            back.set()
        await door.completed("strict", 60, seconds=90)
        through = Counter(use.path for use in uses(first, second))
        assert through == Counter(record.path for record in strict.log.of(prefix="/p/")), "none without a proxy"
        assert set(through) == {f"/p/{number}" for number in range(60)}

        async def given_back() -> bool:
            return not await door.rows("proxy_broker", "SELECT 1 FROM leases WHERE domain = $1", strict.host)

        await until(given_back, seconds=60, every=0.2)
