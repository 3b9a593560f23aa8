"""The broker's REST API. A password goes in, never out."""

from __future__ import annotations

from fastapi import FastAPI

from limpet.kit.keys import Keys
from limpet.kit.pg import Pool
from limpet.kit.rest import make_app
from limpet.proxy_broker.alerts import Alerts
from limpet.proxy_broker.announce import Announce
from limpet.proxy_broker.api import alerts, budgets, costs, imports, policies, pools, proxies, rotation
from limpet.proxy_broker.vault import Vault


def make_api(*, keys: Keys, pool: Pool, vault: Vault, announce: Announce, watch: Alerts) -> FastAPI:
    app = make_app("Limpet proxy broker", keys)
    app.include_router(imports.make_router(pool, vault, announce))
    app.include_router(rotation.make_router(pool, vault))
    app.include_router(proxies.make_router(pool, vault, announce))
    app.include_router(policies.make_router(pool))
    app.include_router(pools.make_router(pool))
    app.include_router(costs.make_router(pool))
    app.include_router(budgets.make_router(pool))
    app.include_router(alerts.make_router(watch))
    return app
