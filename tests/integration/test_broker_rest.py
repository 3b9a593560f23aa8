"""Proxies, pools and policies over real HTTP on a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import PoolFactory
from tests.support.broker_api import POOLS, PROXIES, BrokerApi, as_role, broker_api, fields

WHOLE: dict[str, Any] = {
    "protocol": "socks5",
    "host": "Proxy.Test",
    "port": 1080,
    "username": "me",
    "password": "pa55:w0rd",
    "kind": "residential",
    "country_code": "de",
    "city": "Köln",
    "provider": "acme",
    "monthly_cost": "12.50",
    "cost_per_gb": "3.2500",
    "max_requests_per_hour": None,
    "max_concurrent_leases": 3,
}
UNTOUCHED = {
    "active": True, "operator_disabled": False, "success_count": 0, "failure_count": 0, "consecutive_failures": 0,
    "last_used_at": None, "last_success_at": None, "last_failure_at": None, "avg_response_ms": None,
}  # fmt: skip


@pytest.fixture
async def api(pool_of: PoolFactory) -> AsyncIterator[BrokerApi]:
    async with broker_api(await pool_of("limpet.proxy_broker")) as api:
        yield api


async def test_b1_every_field_goes_in_and_comes_out_but_the_password(api: BrokerApi) -> None:
    added = await api.client.post(PROXIES, json=WHOLE)
    assert added.status_code == 201
    said = {**WHOLE, "host": "proxy.test", "country_code": "DE"}
    del said["password"]
    body = added.json()
    assert {name: body[name] for name in said} == said
    assert {name: body[name] for name in UNTOUCHED} == UNTOUCHED
    assert (body["has_password"], "password" in body) == (True, False)
    assert added.headers["location"] == f"{PROXIES}/{body['proxy_id']}"
    assert await api.ok("GET", added.headers["location"]) == body
    sealed = await api.pool.fetchval("SELECT password_sealed FROM proxies")
    assert "pa55" not in sealed
    assert api.vault.open(sealed, proxy_id=body["proxy_id"]) == "pa55:w0rd"


async def test_b1_a_change_touches_only_what_is_named(api: BrokerApi) -> None:
    before = await api.ok("POST", PROXIES, 201, json=WHOLE)
    path = f"{PROXIES}/{before['proxy_id']}"
    after = await api.ok("PATCH", path, json={"city": "Bonn", "max_requests_per_hour": 20, "monthly_cost": None})
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"city", "max_requests_per_hour", "monthly_cost", "updated_at"}
    assert (after["city"], after["max_requests_per_hour"], after["monthly_cost"]) == ("Bonn", 20, None)
    assert (await api.ok("PATCH", path, json={"password": "new"}))["has_password"]
    sealed = await api.pool.fetchval("SELECT password_sealed FROM proxies")
    assert api.vault.open(sealed, proxy_id=before["proxy_id"]) == "new"
    assert not (await api.ok("PATCH", path, json={"password": None}))["has_password"]
    assert fields(await api.client.patch(path, json={"host": None})) == ["host"]
    assert fields(await api.client.patch(path, json={"proxy_id": 3})) == ["proxy_id"]
    assert fields(await api.client.patch(f"{PROXIES}/999", json={"city": "x"}), 404) == ["proxy_id"]


async def test_b1_two_proxies_cannot_have_one_identity(api: BrokerApi) -> None:
    first, second = await api.add(port=1), await api.add(port=2)
    assert fields(await api.client.post(PROXIES, json={"host": "PROXY.test", "port": 1}), 409) == ["host"]
    assert fields(await api.client.patch(f"{PROXIES}/{second}", json={"port": 1}), 409) == ["host"]
    assert (await api.ok("GET", f"{PROXIES}/{second}"))["port"] == 2
    await api.ok("PATCH", f"{PROXIES}/{second}", json={"port": 1, "username": "other"})
    await api.ok("DELETE", f"{PROXIES}/{first}", 204)


async def test_b7_lists_are_pages_and_filters_are_those_of_the_table(api: BrokerApi) -> None:
    ids = [
        await api.add(port=1, provider="acme", country_code="DE"),
        await api.add(port=2, provider="acme", country_code="FR", kind="mobile"),
        await api.add(port=3, provider="other", protocol="socks5"),
        await api.add(port=4),
    ]
    await api.ok("POST", f"{PROXIES}/{ids[3]}/disable")
    await api.ok("POST", f"{POOLS}/shop.test", json={"proxy_id": ids[2]})

    async def found(**query: Any) -> list[int]:
        return [item["proxy_id"] for item in (await api.ok("GET", PROXIES, params=query))["items"]]

    assert await found() == ids
    assert await found(provider="acme") == ids[:2]
    assert await found(country_code="fr") == [ids[1]]
    assert await found(kind="mobile") == [ids[1]]
    assert await found(protocol="socks5") == [ids[2]]
    assert await found(active=False) == [ids[3]]
    assert await found(active=True, provider="") == []
    assert await found(domain="Shop.test") == [ids[2]]
    first = await api.ok("GET", PROXIES, params={"limit": 3})
    rest = await api.ok("GET", PROXIES, params={"limit": 3, "after": first["next"]})
    assert [len(first["items"]), len(rest["items"]), rest["next"]] == [3, 1, None]
    assert fields(await api.client.get(PROXIES, params={"kind": "paper"})) == ["kind"]


async def test_b7_every_change_of_a_proxy_is_announced_in_order(api: BrokerApi) -> None:
    proxy_id = await api.add()
    path = f"{PROXIES}/{proxy_id}"
    await api.ok("POST", f"{path}/disable")
    await api.ok("PATCH", path, json={"city": "Bonn"})
    await api.ok("POST", f"{path}/enable")
    await api.ok("PATCH", path, json={})
    await api.ok("DELETE", path, 204)
    rows = await api.pool.fetch("SELECT reason, active, removed FROM changes ORDER BY change_id")
    assert [tuple(row) for row in rows] == [
        ("added", True, False),
        ("disabled", False, False),
        ("changed", False, False),
        ("enabled", True, False),
        ("removed", False, True),
    ]
    for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/enable"), ("POST", "/disable")):
        assert fields(await api.client.request(method, path + end), 404) == ["proxy_id"]


async def test_b7_roles_are_read_operate_and_admin(api: BrokerApi) -> None:
    proxy_id = await api.add()
    asked = [
        ("GET", PROXIES, None, "read"),
        ("POST", f"{PROXIES}/{proxy_id}/enable", None, "operate"),
        ("PATCH", f"{PROXIES}/{proxy_id}", {}, "admin"),
        ("POST", f"{PROXIES}/rotate-keys", None, "admin"),
        ("POST", f"{POOLS}/a.test", {"proxy_id": proxy_id}, "admin"),
        ("PATCH", f"{POOLS}/a.test/{proxy_id}", {"priority": 1}, "operate"),
        ("PUT", f"{POOLS}/a.test/policy", {}, "admin"),
        ("PUT", "/api/admin/proxy-budgets/domain/a.test", {"monthly_amount": 1}, "admin"),
        ("GET", "/api/admin/proxy-costs", None, "read"),
        ("GET", "/api/admin/proxy-alerts", None, "read"),
    ]
    for method, path, body, role in asked:
        for held in ("read", "operate", "admin"):
            answer = await api.client.request(method, path, json=body, headers=as_role(held))
            allowed = ("read", "operate", "admin").index(held) >= ("read", "operate", "admin").index(role)
            assert answer.status_code == (200 if allowed else 403), (method, path, held, answer.text)


async def test_b2_a_pool_shows_success_rates_and_states(api: BrokerApi) -> None:
    ids = [await api.add(port=port) for port in range(1, 6)]
    for proxy_id in ids:
        pair = await api.ok("POST", f"{POOLS}/Shop.test", json={"proxy_id": proxy_id, "priority": 2})
        assert (pair["domain"], pair["assigned"], pair["priority"], pair["success_rate"]) == (
            "shop.test",
            True,
            2,
            None,
        )
    await api.used("shop.test", ids[0], good=3, failed=1)
    await api.pool.execute("UPDATE pairs SET blocked_until = now() + interval '1 h' WHERE proxy_id = $1", ids[1])
    await api.pool.execute("UPDATE proxies SET cooling_until = now() + interval '1 h' WHERE proxy_id = $1", ids[2])
    await api.ok("PATCH", f"{POOLS}/shop.test/{ids[3]}", json={"operator_disabled": True})
    await api.pool.execute("UPDATE pairs SET cooling_until = now() - interval '1 h' WHERE proxy_id = $1", ids[4])
    listed = (await api.ok("GET", f"{POOLS}/shop.test"))["items"]
    assert [pair["state"] for pair in listed] == ["active", "blocked", "cooling", "disabled", "active"]
    assert listed[0]["success_rate"] == 0.75
    page = await api.ok("GET", f"{POOLS}/shop.test", params={"limit": 2})
    assert (len(page["items"]), page["next"]) == (2, ids[1])


async def test_b2_a_proxy_leaves_the_pool_and_its_history_stays(api: BrokerApi) -> None:
    proxy_id = await api.add()
    path = f"{POOLS}/shop.test/{proxy_id}"
    assert fields(await api.client.delete(path), 404) == ["proxy_id"]
    assert fields(await api.client.patch(path, json={"priority": 1}), 404) == ["proxy_id"]
    await api.ok("POST", f"{POOLS}/shop.test", json={"proxy_id": proxy_id})
    await api.used("shop.test", proxy_id, good=2)
    await api.ok("DELETE", path, 204)
    assert fields(await api.client.delete(path), 404) == ["proxy_id"]
    assert (await api.ok("GET", f"{POOLS}/shop.test", params={"assigned": True}))["items"] == []
    [kept] = (await api.ok("GET", f"{POOLS}/shop.test"))["items"]
    assert (kept["assigned"], kept["success_count"]) == (False, 2)


async def test_b7_many_are_assigned_at_once_and_strangers_named(api: BrokerApi) -> None:
    ids = [await api.add(port=port) for port in range(1, 4)]
    answer = await api.ok(
        "POST", f"{POOLS}/shop.test/bulk", json={"proxy_ids": [*ids, ids[0], 998, 999], "priority": 1}
    )
    assert answer == {"assigned": 3, "unknown": [998, 999]}
    listed = (await api.ok("GET", f"{POOLS}/shop.test"))["items"]
    assert [(pair["proxy_id"], pair["priority"]) for pair in listed] == [(proxy_id, 1) for proxy_id in ids]
    assert fields(await api.client.post(f"{POOLS}/shop.test/bulk", json={"proxy_ids": []})) == ["proxy_ids"]
    assert fields(await api.client.post(f"{POOLS}/shop.test", json={"proxy_id": 999})) == ["proxy_id"]


async def test_b7_a_person_enables_a_pair_and_what_the_broker_had_decided_ends(api: BrokerApi) -> None:
    proxy_id = await api.add()
    await api.ok("POST", f"{POOLS}/shop.test", json={"proxy_id": proxy_id})
    await api.pool.execute(
        """UPDATE pairs SET operator_disabled = true, cooling_until = now() + interval '1 h', consecutive_failures = 5,
                            blocked_until = now() + interval '1 h', failure_count = 5, last_error = 'HTTP 403',
                            block_count = 5, last_blocked_at = now()"""
    )
    path = f"{POOLS}/shop.test"
    [entry] = (await api.ok("GET", f"{path}/blocked"))["items"]
    assert (entry["proxy_id"], entry["block_count"], entry["last_error"]) == (proxy_id, 5, "HTTP 403")
    pair = await api.ok("PATCH", f"{path}/{proxy_id}", json={"priority": 9})
    assert (pair["state"], pair["priority"]) == ("disabled", 9)
    pair = await api.ok("PATCH", f"{path}/{proxy_id}", json={"operator_disabled": False})
    assert (pair["state"], pair["consecutive_failures"], pair["failure_count"]) == ("active", 0, 5)
    assert (await api.ok("GET", f"{path}/blocked"))["items"] == []
    assert fields(await api.client.patch(f"{path}/{proxy_id}", json={})) == ["body"]


async def test_b6_a_policy_is_put_shown_and_taken_back(api: BrokerApi) -> None:
    path = f"{POOLS}/Shop.test/policy"
    default = await api.ok("GET", path)
    assert (default["stored"], default["strategy"], default["sticky_for"]) == (False, "lru", "PT10M")
    wish = {
        "strategy": "sticky", "sticky_by": "hour", "sticky_for": 90, "country_code": "de", "providers": ["acme"],
        "tiers": ["direct", "datacenter", "residential"], "block_cooldown": 0, "pair_cooldown": "PT1H", "pair_failures": 3,
    }  # fmt: skip
    put = await api.ok("PUT", path, json=wish)
    assert await api.ok("GET", path) == put
    assert (put["domain"], put["stored"], put["country_code"]) == ("shop.test", True, "DE")
    assert (put["sticky_for"], put["block_cooldown"], put["pair_cooldown"]) == ("PT1M30S", "PT0S", "PT1H")
    assert (put["tiers"], put["wave_proxies"]) == (wish["tiers"], None)
    assert (await api.ok("PUT", path, json={}))["strategy"] == "lru"
    await api.ok("DELETE", path, 204)
    assert fields(await api.client.delete(path), 404) == ["domain"]
    assert await api.ok("GET", path) == default


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"strategy": "best"}, "strategy"),
        ({"sticky_for": 0}, "sticky_for"),
        ({"sticky_for": "5"}, "sticky_for"),
        ({"block_cooldown": -1}, "block_cooldown"),
        ({"kinds": ["mobile", "mobile"]}, "kinds"),
        ({"tiers": ["residential", "datacenter"]}, "tiers"),
        ({"colour": 1}, "colour"),
    ],
)
async def test_b6_a_policy_that_cannot_hold_is_refused_by_its_field(
    api: BrokerApi, wish: dict[str, Any], field: str
) -> None:
    assert fields(await api.client.put(f"{POOLS}/shop.test/policy", json=wish)) == [field]
    assert await api.pool.fetchval("SELECT count(*) FROM policies") == 0
