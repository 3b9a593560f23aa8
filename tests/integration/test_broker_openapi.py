"""The broker's API keeps its word: whatever is sent, no 5xx, and every answer is one that its OpenAPI declares."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tests.conftest import PoolFactory
from tests.support.broker_api import POOLS, PROXIES, BrokerApi, broker_api
from tests.support.describing import ask_everything

CONFIG: Final[dict[str, Any]] = {
    "headers": {"Authorization": "Bearer admin"},
    "continue-on-failure": True,
    "generation": {"max-examples": 20, "deterministic": True, "no-shrink": True, "database": "none"},
    # A proxy that one request of a sequence removes is looked for by the next.
    "phases": {"stateful": {"enabled": False}},
    "operations": [
        {
            # Another method of these paths is one of `/proxies/{proxy_id}`, with an id that is none: 422.
            "include-path": [
                f"{PROXIES}/import",
                f"{PROXIES}/rotate-keys",
                f"{POOLS}/{{domain}}/bulk",
                f"{POOLS}/{{domain}}/sizing",
                f"{POOLS}/{{domain}}/blocked",
                f"{POOLS}/{{domain}}/policy",
            ],
            "checks": {"unsupported_method": {"enabled": False}, "allow_header_conformance": {"enabled": False}},
        },
        {
            # Any text is a list: what is no proxy in it is refused line by line.
            "include-path": [f"{PROXIES}/import"],
            "checks": {"negative_data_rejection": {"enabled": False}},
        },
    ],
    # 422 is also for what no schema can say: a proxy that there is not, tiers that do not climb.
    "checks": {"positive_data_acceptance": {"enabled": False}},
}


async def test_b7_every_answer_to_anything_is_a_declared_one(pool_of: PoolFactory) -> None:
    async with broker_api(await pool_of("limpet.proxy_broker")) as api:
        await furnish(api)
        good, wrong = await asyncio.to_thread(ask_everything, f"{api.url}/openapi.json", CONFIG)
    assert not wrong, "\n\n".join(wrong)
    # Where everything is refused nothing is looked at.
    assert len(good) >= 20, good


async def furnish(api: BrokerApi) -> None:
    """Something of everything that can be asked for."""
    for port in range(1, 6):
        proxy_id = await api.add(port=port, password="secret", monthly_cost="10.00", provider="acme", cost_per_gb="1.5")
        await api.ok("POST", f"{POOLS}/shop.test", json={"proxy_id": proxy_id})
        await api.used("shop.test", proxy_id, good=90, failed=5, blocked=5, size=10**9)
    await api.pool.execute("UPDATE pairs SET blocked_until = now() + interval '1 h', last_blocked_at = now()")
    await api.ok("PUT", f"{POOLS}/shop.test/policy", json={"tiers": ["datacenter"], "block_cooldown": 0})
    await api.ok("PUT", "/api/admin/proxy-budgets/domain/shop.test", json={"monthly_amount": 1})
    await api.roll_up()
