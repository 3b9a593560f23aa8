"""What proxies cost, what may be spent and how many are needed, on a real database over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from limpet.proxy_broker.rollup import RollUp
from tests.conftest import PoolFactory
from tests.support.broker_api import POOLS, PROXIES, BrokerApi, broker_api, fields

COSTS = "/api/admin/proxy-costs"
BUDGETS = "/api/admin/proxy-budgets"


@pytest.fixture
async def api(pool_of: PoolFactory) -> AsyncIterator[BrokerApi]:
    async with broker_api(await pool_of("limpet.proxy_broker")) as api:
        yield api


async def costs(api: BrokerApi, by: str, **query: Any) -> dict[str, dict[str, Any]]:
    answer = await api.ok("GET", COSTS, params={"by": by, **query})
    return {item["name"]: item for item in answer["items"]}


async def test_b8_an_hour_of_a_proxy_is_shared_among_domains_by_their_uses(api: BrokerApi) -> None:
    rented = await api.add(port=1, provider="acme", monthly_cost="7.30")
    by_traffic = await api.add(port=2, provider="other", cost_per_gb="4")
    await api.used("a.test", rented, good=3)
    await api.used("b.test", rented, failed=1)
    await api.used("b.test", by_traffic, good=100, blocked=100, size=500_000_000)
    await api.roll_up()
    await api.roll_up()

    domains = await costs(api, "domain")
    assert {name: item["cost"] for name, item in domains.items()} == {"a.test": "0.007500", "b.test": "2.002500"}
    assert domains["a.test"]["cost_per_thousand"] == "2.500000"
    assert (domains["b.test"]["good_pages"], domains["b.test"]["failures"], domains["b.test"]["blocks"]) == (
        100,
        101,
        100,
    )
    assert domains["b.test"]["bytes"] == 500_000_000

    proxies = await costs(api, "proxy")
    assert proxies[str(rented)]["cost"] == "0.010000"
    assert proxies[str(rented)]["cost_per_thousand"] == "3.333333"
    assert (proxies[str(rented)]["idle_cost"], proxies[str(by_traffic)]["idle_cost"]) == ("0.000000", "0.000000")
    providers = await costs(api, "provider")
    assert {name: item["cost"] for name, item in providers.items()} == {"acme": "0.010000", "other": "2.000000"}
    assert providers["other"]["cost_per_thousand"] == "20.000000"
    total = sum(Decimal(item["cost"]) for item in domains.values())
    assert total == sum(Decimal(item["cost"]) for item in providers.values())


async def test_b8_what_was_paid_for_and_not_used_is_shown_beside(api: BrokerApi) -> None:
    idle = await api.add(port=1, provider="acme", monthly_cost="73")
    await api.used("a.test", idle, good=10)
    await api.roll_up()
    # Ten hours that are over: it was there in all of them, and used in the last one.
    end = await api.pool.fetchval("SELECT date_trunc('hour', now())")
    await api.pool.execute("UPDATE proxies SET created_at = $1", end - timedelta(hours=9, minutes=30))
    await api.pool.execute("UPDATE usage_hours SET hour = $1", end - timedelta(hours=1))
    period = {"since": (end - timedelta(days=2)).isoformat(), "until": end.isoformat()}
    for by, name in (("proxy", str(idle)), ("provider", "acme")):
        found = (await costs(api, by, **period))[name]
        assert (found["cost"], found["idle_cost"]) == ("0.100000", "0.900000")
        assert (found["cost_per_thousand"], found["cost_per_thousand_with_idle"]) == ("10.000000", "100.000000")


async def test_b8_what_a_removed_proxy_has_cost_stays_known_and_old_prices_stay(api: BrokerApi) -> None:
    proxy_id = await api.add(provider="acme", monthly_cost="7.30")
    await api.used("a.test", proxy_id, good=1)
    await api.roll_up()
    await api.pool.execute("UPDATE usage_hours SET hour = hour - interval '1 h'")
    await api.ok("PATCH", f"{PROXIES}/{proxy_id}", json={"monthly_cost": "730"})
    await api.used("a.test", proxy_id, good=1)
    # Never rolled up: the removal does it.
    await api.ok("DELETE", f"{PROXIES}/{proxy_id}", 204)
    since = (await api.pool.fetchval("SELECT now() - interval '2 days'")).isoformat()
    found = (await costs(api, "domain", since=since))["a.test"]
    assert (found["cost"], found["good_pages"]) == ("1.010000", 2)
    assert (await costs(api, "proxy", since=since))[str(proxy_id)]["cost"] == "1.010000"


async def test_b8_costs_are_of_a_period_and_come_in_pages(api: BrokerApi) -> None:
    proxy_id = await api.add(cost_per_gb="1")
    for name in ("a.test", "b.test", "c.test"):
        await api.used(name, proxy_id, good=1, size=10**9)
    await api.roll_up()
    first = await api.ok("GET", COSTS, params={"by": "domain", "limit": 2})
    rest = await api.ok("GET", COSTS, params={"by": "domain", "limit": 2, "after": first["next"]})
    assert [item["name"] for item in first["items"] + rest["items"]] == ["a.test", "b.test", "c.test"]
    assert rest["next"] is None
    assert await costs(api, "domain", since="2020-01-01T00:00:00Z", until="2020-02-01T00:00:00Z") == {}
    assert set(await costs(api, "provider")) == {""}
    for query, field in (
        ({"since": "2020-01-01T00:00:00"}, "since"),
        ({"since": "2021-01-01T00:00:00Z", "until": "2020-01-01T00:00:00Z"}, "since"),
        ({"until": "9999-12-31T23:59:59Z"}, "until"),
        ({"by": "colour"}, "by"),
        ({"by": "proxy", "after": "x"}, "after"),
    ):
        assert fields(await api.client.get(COSTS, params=query)) == [field]


async def test_b8_a_budget_warns_stops_and_opens_again(api: BrokerApi) -> None:
    proxy_id = await api.add(provider="acme", cost_per_gb="10")
    rolling = RollUp(pool=api.pool, every=timedelta(seconds=1), keep=timedelta(days=400))

    async def spend(size: int) -> list[tuple[str, str]]:
        await api.used("shop.test", proxy_id, good=1, size=size)
        await rolling.round()
        listed = (await api.ok("GET", BUDGETS))["items"]
        return [(item["state"], item["spent"]) for item in listed]

    for path in (f"{BUDGETS}/domain/Shop.test", f"{BUDGETS}/provider/acme"):
        put = await api.ok("PUT", path, json={"monthly_amount": "10", "alert_share": 0.5})
        assert (put["state"], put["spent"], put["monthly_amount"]) == ("open", "0.000000", "10.00")
    assert await spend(400_000_000) == [("open", "4.000000")] * 2
    assert await spend(100_000_000) == [("warned", "5.000000")] * 2
    assert await spend(499_999_900) == [("warned", "9.999999")] * 2
    assert await spend(100) == [("stopped", "10.000000")] * 2
    raised = await api.ok("PUT", f"{BUDGETS}/domain/shop.test", json={"monthly_amount": 100})
    assert (raised["state"], raised["alert_share"], raised["spent"]) == ("open", 0.8, "10.000000")
    alerts = (await api.ok("GET", "/api/admin/proxy-alerts"))["items"]
    assert ("budget_stopped", "provider", "acme") in {(one["condition"], one["scope"], one["name"]) for one in alerts}

    # What was spent belongs to the month before now.
    await api.pool.execute("UPDATE usage_hours SET hour = date_trunc('month', now()) - interval '1 h'")
    await api.pool.execute("UPDATE budgets SET month = date_trunc('month', now()) - interval '1 month'")
    await RollUp(pool=api.pool, every=timedelta(seconds=1), keep=timedelta(days=400)).round()
    opened = await api.ok("GET", f"{BUDGETS}/provider/acme")
    month = await api.pool.fetchval("SELECT date_trunc('month', now())::date")
    assert (opened["state"], opened["spent"], opened["month"]) == ("open", "0.000000", month.isoformat())
    await api.ok("DELETE", f"{BUDGETS}/provider/acme", 204)
    assert fields(await api.client.delete(f"{BUDGETS}/provider/acme"), 404) == ["name"]
    assert fields(await api.client.get(f"{BUDGETS}/colour/acme")) == ["scope"]
    assert fields(await api.client.put(f"{BUDGETS}/domain/a", json={"monthly_amount": -1})) == ["monthly_amount"]


async def test_b8_any_number_of_brokers_roll_up_and_each_use_counts_once(api: BrokerApi) -> None:
    ids = [await api.add(port=port) for port in range(1, 4)]
    brokers = [RollUp(pool=api.pool, every=timedelta(seconds=1), keep=timedelta(days=400)) for _ in range(4)]
    for _ in range(10):
        for proxy_id in ids:
            await api.used("a.test", proxy_id, good=1, failed=1, size=7)
        await asyncio.gather(*(broker.round() for broker in brokers))
    await api.roll_up()
    [row] = await api.pool.fetch(
        "SELECT sum(success_count) AS good, sum(failure_count) AS bad, sum(byte_count) AS size FROM usage_hours"
    )
    assert tuple(row) == (30, 30, 210)
    assert await api.pool.fetchval("SELECT sum(success_count + failure_count) FROM usage_minutes") == 60


async def test_b8_old_hours_go_and_what_is_kept_stays(api: BrokerApi) -> None:
    proxy_id = await api.add()
    await api.used("a.test", proxy_id, good=1)
    await api.roll_up()
    await api.pool.execute(
        """INSERT INTO usage_hours (hour, domain, proxy_id, provider)
           VALUES (now() - interval '401 days', 'a.test', 1, ''), (now() - interval '399 days', 'a.test', 1, '')"""
    )
    await api.pool.execute("INSERT INTO usage_minutes VALUES (now() - interval '3 h', 'a.test', 1, 1)")
    await api.roll_up()
    assert await api.pool.fetchval("SELECT count(*) FROM usage_hours") == 2
    assert await api.pool.fetchval("SELECT count(*) FROM usage_minutes") == 1


async def test_b8_sizing_measures_the_busiest_hour_and_counts_what_is_active(api: BrokerApi) -> None:
    ids = [await api.add(port=port, max_requests_per_hour=20) for port in range(1, 7)]
    path = f"{POOLS}/shop.test/sizing"
    await api.ok("POST", f"{POOLS}/shop.test/bulk", json={"proxy_ids": ids[:5]})
    assert (await api.ok("GET", path))["needed"] == 0
    await api.used("shop.test", ids[0], good=60, failed=20)
    await api.used("shop.test", ids[1], good=20)
    await api.roll_up()
    found = await api.ok("GET", path)
    assert found == {
        "domain": "shop.test", "rate_per_hour": "100", "max_requests_per_proxy": found["max_requests_per_proxy"],
        "needed": 5, "recommended": 6, "have": 5, "members": 5, "advice": "tight",
    }  # fmt: skip
    assert Decimal(found["max_requests_per_proxy"]) == 20
    await api.ok("POST", f"{PROXIES}/{ids[0]}/disable")
    await api.pool.execute("UPDATE pairs SET blocked_until = now() + interval '1 h' WHERE proxy_id = $1", ids[1])
    found = await api.ok("GET", path)
    assert (found["have"], found["members"], found["advice"]) == (3, 5, "short")
    # A quiet hour does not hide the busy one before it.
    await api.pool.execute("UPDATE usage_hours SET hour = hour - interval '3 h'")
    await api.pool.execute("DELETE FROM usage_minutes")
    assert (await api.ok("GET", path))["needed"] == 5
    assert (await api.ok("GET", path, params={"hours": 2}))["needed"] == 0
    planned = await api.ok("GET", path, params={"rate_per_hour": "1000", "max_requests_per_proxy": "20"})
    assert (planned["needed"], planned["recommended"]) == (50, 60)
    # Without a pool of its own a domain has what is shared, as far as its policy allows.
    assert (await api.ok("GET", f"{POOLS}/other.test/sizing"))["have"] == 1
    await api.ok("PUT", f"{POOLS}/other.test/policy", json={"country_code": "FR"})
    assert (await api.ok("GET", f"{POOLS}/other.test/sizing"))["have"] == 0
