"""Alerts as people and Prometheus see them, on a real database and a real bus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from limpet.contracts.events.v1.domain_pb2 import DomainChanged
from limpet.contracts.events.v1.fetch_pb2 import ProxyPolicy
from limpet.kit.bus import Bus
from limpet.kit.clock import to_stamp
from limpet.kit.streams import BROKER_DOMAINS
from limpet.proxy_broker.domain_facts import DomainFacts
from tests.conftest import PoolFactory
from tests.support.broker_api import POOLS, PROXIES, BrokerApi, broker_api
from tests.support.parts import running
from tests.support.waiting import until

ALERTS = "/api/admin/proxy-alerts"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def api(pool_of: PoolFactory) -> AsyncIterator[BrokerApi]:
    async with broker_api(await pool_of("limpet.proxy_broker")) as api:
        yield api


async def alerts(api: BrokerApi, condition: str) -> dict[str, str]:
    items = (await api.ok("GET", ALERTS, params={"limit": 1000}))["items"]
    return {item["name"]: item["message"] for item in items if item["condition"] == condition}


async def know(api: BrokerApi, name: str, *, policy: str = "required", active: bool = True) -> None:
    await api.pool.execute("INSERT INTO domains VALUES ($1, $2, $3, now())", name, policy, active)


async def test_b9_domains_with_too_few_active_proxies_are_named_zero_included(api: BrokerApi) -> None:
    ids = [await api.add(port=port) for port in range(1, 8)]
    for name, count in (("two.test", 2), ("three.test", 3), ("one.test", 1)):
        await api.ok("POST", f"{POOLS}/{name}/bulk", json={"proxy_ids": ids[:count]})
    assert set(await alerts(api, "few_proxies")) == {"one.test", "two.test"}

    # Shared proxies are four: enough for a domain without a pool, until one is left out by its policy.
    await know(api, "shared.test")
    await know(api, "quiet.test", active=False)
    await know(api, "direct.test", policy="none")
    assert set(await alerts(api, "few_proxies")) == {"one.test", "two.test"}
    await api.ok("PUT", f"{POOLS}/french.test/policy", json={"country_code": "FR"})
    assert (await alerts(api, "few_proxies"))["french.test"] == "0 active proxies, fewer than 3"
    for proxy_id in ids[3:5]:
        await api.ok("POST", f"{PROXIES}/{proxy_id}/disable")
    assert (await alerts(api, "few_proxies"))["shared.test"] == "2 active proxies, fewer than 3"

    # Cooling, blocked and disabled ones are not active.
    await api.pool.execute("UPDATE proxies SET cooling_until = now() + interval '1 h' WHERE proxy_id = $1", ids[0])
    assert (await alerts(api, "few_proxies"))["three.test"] == "2 active proxies, fewer than 3"
    await api.pool.execute("UPDATE pairs SET blocked_until = now() + interval '1 h' WHERE domain = 'three.test'")
    assert (await alerts(api, "few_proxies"))["three.test"] == "0 active proxies, fewer than 3"
    await api.pool.execute("UPDATE pairs SET blocked_until = NULL, operator_disabled = proxy_id = $1", ids[1])
    assert (await alerts(api, "few_proxies"))["three.test"] == "1 active proxies, fewer than 3"

    # A pool of a domain that nobody crawls any more is no news.
    await know(api, "two.test", active=False)
    await know(api, "one.test", policy="none")
    assert set(await alerts(api, "few_proxies")) == {"three.test", "shared.test", "french.test"}


async def test_b9_without_any_proxy_every_domain_that_wants_one_is_named(api: BrokerApi) -> None:
    await know(api, "a.test")
    await know(api, "b.test", policy="preferred")
    assert await alerts(api, "few_proxies") == dict.fromkeys(["a.test", "b.test"], "0 active proxies, fewer than 3")
    first = await api.ok("GET", ALERTS, params={"limit": 1})
    rest = await api.ok("GET", ALERTS, params={"limit": 1, "after": first["next"]})
    assert [one["name"] for one in first["items"] + rest["items"]] == ["a.test", "b.test"]
    assert rest["next"] is None


async def test_b9_more_than_a_tenth_of_failures_in_the_last_hour_is_an_alert(api: BrokerApi) -> None:
    proxy_id = await api.add()
    await api.used("just.test", proxy_id, good=90, failed=10)
    await api.used("over.test", proxy_id, good=89, failed=6, blocked=5)
    await api.used("few.test", proxy_id, failed=9)
    await api.used("old.test", proxy_id, failed=50)
    await api.roll_up()
    await api.pool.execute("UPDATE usage_minutes SET minute = minute - interval '61 min' WHERE domain = 'old.test'")
    assert await alerts(api, "failures") == {"over.test": "11 of 100 uses failed in the last hour"}


async def test_b9_gauges_count_what_the_list_names(api: BrokerApi) -> None:
    ids = [await api.add(port=port, password="x") for port in range(1, 4)]
    await api.ok("POST", f"{PROXIES}/{ids[0]}/disable")
    await api.pool.execute("UPDATE proxies SET cooling_until = now() + interval '1 h' WHERE proxy_id = $1", ids[1])
    await know(api, "a.test")
    await know(api, "b.test")
    await api.used("a.test", ids[2], failed=20, size=10**9)
    await api.ok("PUT", "/api/admin/proxy-budgets/domain/a.test", json={"monthly_amount": 0})
    await api.alerts.measure()

    def gauge(name: str, **labels: str) -> float | None:
        return REGISTRY.get_sample_value(f"limpet_proxy_broker_{name}", labels or None)

    assert gauge("alerts", reason="few_proxies") == 2
    assert gauge("alerts", reason="failures") == 0
    assert (gauge("alerts", reason="budget_warned"), gauge("alerts", reason="budget_stopped")) == (0, 1)
    assert [gauge("proxies", state=state) for state in ("active", "cooling", "disabled")] == [1, 1, 1]
    assert gauge("old_passwords") == 0
    await api.roll_up()
    await api.alerts.measure()
    assert gauge("alerts", reason="failures") == 1


async def test_b9_the_broker_learns_domains_from_what_the_scheduler_announces(api: BrokerApi, bus: Bus) -> None:
    async def announce(name: str, domain_id: int, *, at: datetime = NOW, **values: Any) -> None:
        fact = DomainChanged(name=name, changed_time=to_stamp(at), **values)
        await bus.publish(fact, key=f"{name} {at} {values}", suffix=str(domain_id))

    required: dict[str, Any] = {"active": True, "proxy_policy": ProxyPolicy.PROXY_POLICY_REQUIRED}
    await announce("A.test", 1, **required)
    await announce("b.test", 2, active=True, proxy_policy=ProxyPolicy.PROXY_POLICY_NONE)
    await announce("c.test", 3, active=True, proxy_policy=ProxyPolicy.PROXY_POLICY_PREFERRED)
    await announce("c.test", 3, at=NOW + timedelta(seconds=1), active=True, deleted=True)

    async def rows() -> dict[str, tuple[str, bool]]:
        return {row["name"]: (row["proxy_policy"], row["active"]) for row in await api.pool.fetch("TABLE domains")}

    async def all_known() -> bool:
        return len(await rows()) == 3

    # They were announced before anybody listened.
    async with running(bus.consume(BROKER_DOMAINS, DomainFacts(api.pool).on_domain_changed, slots=8)):
        await until(all_known)
        assert await rows() == {"a.test": ("required", True), "b.test": ("none", True), "c.test": ("none", False)}
        # A late fact of before changes nothing; the next one does.
        await announce("a.test", 1, at=NOW - timedelta(seconds=1), active=False)
        await announce("b.test", 2, at=NOW + timedelta(seconds=1), **required)

        async def b_required() -> bool:
            return (await rows())["b.test"] == ("required", True)

        await until(b_required)
        assert (await rows())["a.test"] == ("required", True)
    assert set(await alerts(api, "few_proxies")) == {"a.test", "b.test"}
