"""Alerts: domains with too few proxies or too many failures, and money that runs out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

import asyncpg
import structlog

from limpet.kit.pg import LOST, Pool
from limpet.proxy_broker import metrics
from limpet.proxy_broker.store import budgets, domains, proxies, secrets, usage_minutes
from limpet.proxy_broker.vault import Vault

log = structlog.get_logger()

Condition = Literal["few_proxies", "failures", "budget_warned", "budget_stopped"]
CONDITIONS: Final[tuple[Condition, ...]] = ("few_proxies", "failures", "budget_warned", "budget_stopped")
PROXY_STATES: Final = ("active", "cooling", "disabled")
ALL: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One thing that a person should look at."""

    condition: Condition
    # A domain, or for a budget what it is for.
    scope: Literal["domain", "provider"]
    name: str
    message: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.condition, self.scope, self.name


@dataclass(frozen=True, kw_only=True)
class Limits:
    """From where on it is worth an alert."""

    least_proxies: int = 3
    failure_share: float = 0.1
    least_uses: int = 10


@dataclass(frozen=True, kw_only=True)
class Alerts:
    """Looks at the database, so that every broker says the same."""

    pool: Pool
    vault: Vault
    limits: Limits
    every: timedelta

    async def run(self) -> None:
        """A part: the gauges follow the alerts."""
        while True:
            try:
                await self.measure()
            except (*LOST, asyncpg.OperatorInterventionError) as error:
                log.warning("alerts_postponed", error=repr(error))
            await asyncio.sleep(self.every.total_seconds())

    async def find(self) -> list[Alert]:
        """All that hold now, in the order of their keys."""
        async with self.pool.acquire() as conn:
            short = await domains.list_short(conn, least=self.limits.least_proxies)
            share, least = self.limits.failure_share, self.limits.least_uses
            failing = await usage_minutes.list_failing(conn, share=share, least=least)
            money = await budgets.list_after(conn, limit=ALL)
        found = [_few(one, least=self.limits.least_proxies) for one in short]
        found += [_failures(one) for one in failing]
        found += [_budget(one) for one in money if one.state != "open"]
        return sorted(found, key=lambda alert: alert.key)

    async def measure(self) -> None:
        found = await self.find()
        async with self.pool.acquire() as conn:
            states = await proxies.count(conn)
            by_key = await secrets.count_by_key(conn)
        for condition in CONDITIONS:
            metrics.ALERTS.labels(condition).set(sum(alert.condition == condition for alert in found))
        for state in PROXY_STATES:
            metrics.PROXIES.labels(state).set(states.get(state, 0))
        metrics.OLD_PASSWORDS.set(sum(count for key, count in by_key.items() if key != self.vault.newest))


def _few(short: domains.Short, *, least: int) -> Alert:
    message = f"{short.active_proxies} active proxies, fewer than {least}"
    return Alert(condition="few_proxies", scope="domain", name=short.domain, message=message)


def _failures(failing: usage_minutes.Failing) -> Alert:
    uses = failing.success_count + failing.failure_count
    message = f"{failing.failure_count} of {uses} uses failed in the last hour"
    return Alert(condition="failures", scope="domain", name=failing.domain, message=message)


def _budget(budget: budgets.Budget) -> Alert:
    condition: Condition = "budget_stopped" if budget.state == "stopped" else "budget_warned"
    message = f"{budget.spent} of {budget.monthly_amount} spent this month"
    return Alert(condition=condition, scope=budget.scope, name=budget.name, message=message)
