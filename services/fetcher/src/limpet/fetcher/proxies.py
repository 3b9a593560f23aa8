"""Proxies from the broker: wants of a few milliseconds travel in one call, and what was not used serves the next order."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from limpet.contracts.events.v1.fetch_pb2 import FetchRequested, ProxyPolicy
from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant, Outcome, Used, Want
from limpet.fetcher.broker import HOLD_SECONDS, Broker
from limpet.fetcher.metrics import LEASES, LEASES_KEPT
from limpet.fetcher.reports import Reports
from limpet.fetcher.stock import Leased, Shelf, Stock
from limpet.kit.clock import to_seconds
from limpet.kit.gather import Gather

LINGER = 0.005
MAX_HOLD = 600.0
# The lease outlives the request by this, so that the report finds it open,
SPARE_SECONDS = 5
# and by this, so that another order can use it where the first one does not.
KEPT_SECONDS = 30
MAX_ERROR = 200
# The site refuses whatever comes: going there without a proxy would only add our own address.
SITE_REFUSES = "domain_blocked"

ASKED, REUSED = LEASES.labels("broker"), LEASES.labels("stock")


@dataclass(frozen=True, slots=True)
class NoProxy:
    """No proxy may be used now."""

    hold_seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class _Asked:
    want: Want
    # When the order must have started, by the steady clock.
    by: float


class Proxies:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._wants: Gather[_Asked, Grant | NoProxy] = Gather(self._lease, linger=LINGER)
        self._stock = Stock()
        self._reports = Reports(broker)

    async def lease(self, order: FetchRequested, *, now: float) -> Leased | NoProxy:
        """`now` is the time on the clock of the order."""
        began = time.monotonic()
        seconds = max(1.0, to_seconds(order.give_up_time) - now)
        shelf = Shelf(order.domain, order.group_key, order.proxy_policy == ProxyPolicy.PROXY_POLICY_PREFERRED)
        if (kept := self._stock.take(shelf, needed_until=began + seconds)) is not None:
            LEASES_KEPT.set(len(self._stock))
            REUSED.inc()
            return kept
        ttl = math.ceil(seconds) + KEPT_SECONDS + SPARE_SECONDS
        want = Want(
            domain=order.domain,
            task_id=order.task_id,
            attempt=order.attempt,
            ttl_seconds=ttl,
            traceparent=order.traceparent,
            session_key=shelf.session_key,
            direct_allowed=shelf.direct_allowed,
        )
        grant = await self._wants.add(_Asked(want, began + to_seconds(order.start_by_time) - now))
        if isinstance(grant, NoProxy):
            return grant
        if not grant.lease_id:
            hold = to_seconds(grant.retry_time) - now if grant.HasField("retry_time") else HOLD_SECONDS
            return NoProxy(min(max(1.0, hold), MAX_HOLD), grant.refusal)
        ASKED.inc()
        # The broker may give less than was asked for. Its clock is another one: it can shorten a lease, not prolong it.
        lasts = min(ttl, to_seconds(grant.expires_time) - now) if grant.HasField("expires_time") else ttl
        return Leased(grant, shelf, keep_until=began + lasts - seconds - SPARE_SECONDS, ends_at=began + ttl)

    def give_back(self, leased: Leased) -> None:
        """It was not used. It is charged to the proxy's hour all the same, so another order may have it."""
        wait = leased.keep_until - time.monotonic()
        if wait <= 0:
            self.report(leased, Outcome.OUTCOME_UNUSED)
            return
        self._stock.put(leased)
        LEASES_KEPT.set(len(self._stock))
        asyncio.get_running_loop().call_later(wait, self._let_go, leased)

    def report(
        self,
        leased: Leased,
        outcome: Outcome.ValueType,
        *,
        response_ms: int = 0,
        error: str = "",
        byte_count: int = 0,
    ) -> None:
        """`error` never names the proxy; `byte_count` is of the body as received, or decoded where its size is not told."""
        used = Used(
            lease_id=leased.grant.lease_id,
            outcome=outcome,
            response_ms=response_ms,
            error=error[:MAX_ERROR],
            byte_count=byte_count,
        )
        self._reports.add(used, ends_at=leased.ends_at)

    async def drain(self) -> None:
        """Give everything back and send what has not been reported yet."""
        for leased in self._stock.clear():
            self.report(leased, Outcome.OUTCOME_UNUSED)
        LEASES_KEPT.set(0)
        await self._reports.drain()

    def _let_go(self, leased: Leased) -> None:
        if self._stock.remove(leased):
            LEASES_KEPT.set(len(self._stock))
            self.report(leased, Outcome.OUTCOME_UNUSED)

    async def _lease(self, asked: Sequence[_Asked]) -> Sequence[Grant | NoProxy]:
        grants = await self._broker.lease([one.want for one in asked], by=max(one.by for one in asked))
        if grants is None:
            return [NoProxy(self._broker.hold_seconds, "the proxy broker is away")] * len(asked)
        return list(grants)
