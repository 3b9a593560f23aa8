"""Roll-up: what pairs have done goes into hours and minutes, budgets follow, and what is old goes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

import asyncpg
import structlog

from limpet.kit.pg import COLLIDED, LOST, Conn, Pool
from limpet.proxy_broker import metrics
from limpet.proxy_broker.budget import month_after, month_of, state_of
from limpet.proxy_broker.costs import cost, shown
from limpet.proxy_broker.store import budgets, usage_hours, usage_minutes
from limpet.proxy_broker.store.budgets import Budget, Key

log = structlog.get_logger()

# Reports wait for a pair's lock: little at a time, so that they wait for milliseconds.
BATCH: Final = 500
MINUTES_KEPT: Final = timedelta(hours=2)
HOUR: Final = timedelta(hours=1)


@dataclass(kw_only=True)
class RollUp:
    """Any number may run at once: one does the work, the others find it done."""

    pool: Pool
    every: timedelta
    keep: timedelta
    # Of hours that are over nothing changes: their cost is summed once.
    _past: dict[Key, Decimal] = field(default_factory=dict)
    _past_until: datetime | None = None
    _pruned_at: datetime | None = None

    async def run(self) -> None:
        """A part."""
        while True:
            try:
                await self.round()
            except (*LOST, *COLLIDED, asyncpg.OperatorInterventionError) as error:
                log.warning("roll_up_postponed", error=repr(error))
            await asyncio.sleep(self.every.total_seconds())

    async def round(self) -> None:
        while await self._roll_up() == BATCH:
            pass
        async with self.pool.acquire() as conn, conn.transaction():
            if not await usage_hours.be_alone(conn):
                return
            changed = await self._follow_budgets(conn)
            await self._prune(conn)
        for budget, state in changed:
            log.warning("budget_changed", scope=budget.scope, name=budget.name, before=budget.state, state=state)
            metrics.BUDGETS_CHANGED.labels(state).inc()

    async def _roll_up(self) -> int:
        async with self.pool.acquire() as conn, conn.transaction():
            if not await usage_hours.be_alone(conn):
                return 0
            return await usage_hours.roll_up(conn, limit=BATCH)

    async def _follow_budgets(self, conn: Conn) -> list[tuple[Budget, str]]:
        found = await budgets.lock(conn)
        if not found:
            return []
        now = await budgets.now(conn)
        hour = now.replace(minute=0, second=0, microsecond=0)
        if self._past_until != hour or any(budget.key not in self._past for budget in found):
            past = await spent_by(conn, found, since=_start(month_of(now)), until=hour)
            self._past, self._past_until = past, hour
        running = await spent_by(conn, found, since=hour, until=hour + HOUR)
        return await record(
            conn, found, month=month_of(now), spent={key: self._past[key] + running[key] for key in running}
        )

    async def _prune(self, conn: Conn) -> None:
        now = await budgets.now(conn)
        if self._pruned_at is not None and now - self._pruned_at < HOUR:
            return
        self._pruned_at = now
        count = await usage_hours.prune(conn, older_than=self.keep)
        await usage_minutes.prune(conn, older_than=MINUTES_KEPT)
        if count:
            log.info("usage_pruned", count=count)


async def settle_budgets(conn: Conn) -> None:
    """After a person's change: what is spent and what follows, at once."""
    found = await budgets.lock(conn)
    now = await budgets.now(conn)
    month = month_of(now)
    spent = await spent_by(conn, found, since=_start(month), until=_start(month_after(month)))
    await record(conn, found, month=month, spent=spent)


async def spent_by(conn: Conn, found: list[Budget], *, since: datetime, until: datetime) -> dict[Key, Decimal]:
    sums = await budgets.spent(conn, since=since, until=until)
    nothing = (Decimal(0), Decimal(0))
    pairs = {budget.key: sums.get(budget.key, nothing) for budget in found}
    return {key: cost(price_hours=hours, price_bytes=traffic) for key, (hours, traffic) in pairs.items()}


async def record(
    conn: Conn, found: list[Budget], *, month: date, spent: dict[Key, Decimal]
) -> list[tuple[Budget, str]]:
    """The budgets whose state is another one now."""
    now = [
        (budget, spent[budget.key], state_of(
            spent=spent[budget.key], amount=budget.monthly_amount, alert_share=budget.alert_share
        ))
        for budget in found
    ]  # fmt: skip
    await budgets.record(conn, month=month, found=[(budget.key, shown(amount), state) for budget, amount, state in now])
    return [(budget, state) for budget, _, state in now if state != budget.state]


def _start(month: date) -> datetime:
    return datetime.combine(month, time(), UTC)
