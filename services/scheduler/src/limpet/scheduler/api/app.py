"""The scheduler's REST API."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI

from limpet.kit.bus import Bus
from limpet.kit.keys import Keys
from limpet.kit.pg import Pool
from limpet.kit.rest import make_app
from limpet.scheduler.api import (
    batches,
    dead_letters,
    domains,
    explain,
    pagination_rules,
    run_schedules,
    runs,
    sites,
    tasks,
    webhooks,
)
from limpet.scheduler.blocklists import Blocklists
from limpet.scheduler.dead_letters import DeadLetters
from limpet.scheduler.explain import Explain
from limpet.scheduler.signature import Signer


def make_api(
    pool: Pool,
    bus: Bus,
    keys: Keys,
    *,
    submitted: Callable[[], None],
    changed: Callable[[], None],
    signer: Signer,
    explainer: Explain | None = None,
    ended: Callable[[], None] = lambda: None,
    blocklists: Blocklists = Blocklists(None),
) -> FastAPI:
    app = make_app("Limpet scheduler", keys)
    app.include_router(domains.make_router(pool, changed=changed))
    app.include_router(tasks.make_router(pool, submitted=submitted, signer=signer))
    app.include_router(explain.make_router(explainer or Explain(pool)))
    app.include_router(batches.make_router(pool, acted=submitted, signer=signer))
    app.include_router(runs.make_router(pool, started=submitted, ended=ended, signer=signer))
    app.include_router(run_schedules.make_router(pool, signer=signer))
    app.include_router(sites.make_router(pool, blocklists))
    app.include_router(pagination_rules.make_router(pool))
    app.include_router(webhooks.make_router(pool, signer))
    app.include_router(dead_letters.make_router(DeadLetters(bus)))
    return app
