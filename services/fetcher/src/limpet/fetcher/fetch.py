"""Fetch: one order in, one fact out. Wait for the slot, get the page, judge it, store it, say so."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import structlog

from limpet.contracts.events.v1.fetch_pb2 import FetchRequested, FetchStarted, OrderKind, ProxyPolicy, ReturnReason
from limpet.contracts.proxy.v1.proxy_service_pb2 import Grant, Outcome
from limpet.fetcher import facts, redirect
from limpet.fetcher.archive import Archive
from limpet.fetcher.blame import outcome_of
from limpet.fetcher.clocksync import ClockSync
from limpet.fetcher.egress import Egress
from limpet.fetcher.facts import Fact, Judgement, Try
from limpet.fetcher.metrics import BODY_BYTES, REDELIVERED, RESPONSE_SECONDS, SETTLED
from limpet.fetcher.orders import LATE, wait_of
from limpet.fetcher.proxies import NoProxy, Proxies
from limpet.fetcher.slots import Slots
from limpet.fetcher.validate import Failure, retry_after_seconds, verdict
from limpet.fetcher.web import Page, Via, Web
from limpet.kit import tracing
from limpet.kit.beat import Pulse
from limpet.kit.bus import Bus
from limpet.kit.clock import to_seconds
from limpet.kit.delivery import Delivery
from limpet.kit.stall import progressed
from limpet.kit.underway import Underway

log = structlog.get_logger()

# The last stretch before a slot is slept in one go, after another look at the clock.
NEAR = 0.05
# All of a robots.txt that counts (RFC 9309, section 2.5).
ROBOTS_BYTES = 500 << 10
LEASED = (ProxyPolicy.PROXY_POLICY_PREFERRED, ProxyPolicy.PROXY_POLICY_REQUIRED)
SETTLED_AS = {outcome: SETTLED.labels(outcome) for outcome in facts.OUTCOMES}


@dataclass(frozen=True, kw_only=True)
class Fetch:
    bus: Bus
    clock: ClockSync
    slots: Slots
    web: Web
    proxies: Proxies
    archive: Archive
    underway: Underway[FetchStarted]
    pulse: Pulse
    egress: Egress

    async def on_fetch_requested(self, delivery: Delivery) -> None:
        if delivery.redelivered:
            # Its first holder may still be at it; if not, the permit expires by itself.
            REDELIVERED.inc()
            return
        orders = delivery.records(FetchRequested)
        # One that fails must not take the others with it; nobody carries it out again, so its permit expires.
        ends = await asyncio.gather(*map(self._carry_out, orders), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def _carry_out(self, order: FetchRequested) -> None:
        async with self.slots.hold():
            fact = await self._settle(order)
            await self.bus.record(fact)
            self._count(order, fact)
            progressed(time.monotonic())

    async def _settle(self, order: FetchRequested) -> Fact:
        if reason := self._hindrance():
            return facts.returned(order, reason)
        grant: Grant | None = None
        if order.proxy_policy in LEASED:
            leased = await self._lease(order)
            if not isinstance(leased, NoProxy):
                grant = leased
            elif order.proxy_policy == ProxyPolicy.PROXY_POLICY_REQUIRED:
                reason = ReturnReason.RETURN_REASON_NO_PROXY
                return facts.returned(order, reason, hold_seconds=leased.hold_seconds)
        if reason := await self._wait(order):
            if grant is not None:
                self.proxies.report(grant.lease_id, Outcome.OUTCOME_UNUSED)
            return facts.returned(order, reason)
        fact = await self.slots.unless_cut(self._try(order, grant))
        return fact if fact is not None else facts.returned(order, ReturnReason.RETURN_REASON_SHUTDOWN)

    def _hindrance(self) -> ReturnReason.ValueType | None:
        if reason := self.slots.hindrance:
            return reason
        return None if self.clock.fresh else ReturnReason.RETURN_REASON_NO_CLOCK

    async def _lease(self, order: FetchRequested) -> Grant | NoProxy:
        now, _ = self.clock.now()
        return await self.proxies.lease(
            domain=order.domain,
            task_id=order.task_id,
            attempt=order.attempt,
            seconds=to_seconds(order.give_up_time) - now,
            now=now,
            traceparent=order.traceparent,
        )

    async def _wait(self, order: FetchRequested) -> ReturnReason.ValueType | None:
        """Until the slot has come. A reason when the order must go back instead."""
        not_before = to_seconds(order.not_before_time)
        start_by = min(to_seconds(order.start_by_time), to_seconds(order.give_up_time))
        while True:
            if reason := self._hindrance():
                return reason
            now, error = self.clock.now()
            wait = wait_of(not_before=not_before, start_by=start_by, now=now, error=error)
            if wait is LATE:
                return ReturnReason.RETURN_REASON_LATE
            if wait == 0.0:
                return None
            await self.slots.pause(wait if wait <= NEAR else wait - NEAR / 2)

    async def _try(self, order: FetchRequested, grant: Grant | None) -> Fact:
        now, error = self.clock.now()
        seconds = max(0.001, to_seconds(order.give_up_time) - now - error)
        via = None if grant is None else Via(grant.protocol, grant.host, grant.port, grant.username, grant.password)
        begun = time.monotonic()
        progressed(begun, quiet_for=seconds)
        with self.underway.running([FetchStarted(task_id=order.task_id, attempt=order.attempt)]):
            cut_at = ROBOTS_BYTES if order.kind == OrderKind.ORDER_KIND_ROBOTS else 0
            answer = await self.web.get(order.url, user_agent=order.user_agent, seconds=seconds, via=via, cut_at=cut_at)
        took = time.monotonic() - begun
        RESPONSE_SECONDS.observe(took)
        self.pulse.latency(took * 1000)
        made = Try(started=now, response_ms=round(took * 1000), proxy_id=0 if grant is None else grant.proxy_id)
        judged = judge(order, answer, now=now + took)
        if isinstance(answer, Failure) and await self.egress.explains(answer.kind):
            if grant is not None:
                self.proxies.report(grant.lease_id, Outcome.OUTCOME_UNUSED)
            return facts.returned(order, ReturnReason.RETURN_REASON_NO_NETWORK)
        if grant is not None:
            self.proxies.report(
                grant.lease_id,
                outcome_of(judged, kind=order.kind),
                response_ms=made.response_ms,
                error=judged.error if isinstance(judged, Failure) else "",
            )
        return await self._store(order, made, answer, judged)

    async def _store(self, order: FetchRequested, made: Try, answer: Page | Failure, judged: Judgement) -> Fact:
        """The body of a good page and the row of any answer are kept before the fact goes out."""
        if isinstance(answer, Failure):
            return facts.settled(order, made, None, judged)
        good = judged is None
        key = await self.archive.keep(facts.row(order, made, answer, judged), answer.body if good else None)
        if good:
            BODY_BYTES.inc(len(answer.body))
        return facts.settled(order, made, answer, judged, body_key=key)

    def _count(self, order: FetchRequested, fact: Fact) -> None:
        outcome = facts.outcome_of(fact)
        SETTLED_AS[outcome].inc()
        if outcome == "fetched":
            self.pulse.done()
        elif outcome not in ("returned", "redirected"):
            self.pulse.failed()
        if tracing.is_sampled(order.traceparent):
            with tracing.use(order.traceparent):
                log.info(
                    "page_settled",
                    outcome=outcome,
                    task_id=order.task_id,
                    attempt=order.attempt,
                    url=order.url,
                    **facts.told(fact),
                )


def judge(order: FetchRequested, answer: Page | Failure, *, now: float) -> Judgement:
    if isinstance(answer, Failure):
        return answer
    if 300 <= answer.status < 400:
        return redirect.follow(order.url, domain=order.domain, status=answer.status, location=answer.location)
    return verdict(
        status=answer.status,
        content_type=answer.content_type,
        body=answer.body,
        retry_after=retry_after_seconds(answer.retry_after, now=now),
        min_body_bytes=order.min_body_bytes,
        is_page=order.kind == OrderKind.ORDER_KIND_PAGE,
    )
