"""Fetch: one order in, one fact out. Wait for the slot, get the page, judge it, store it, say so."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import structlog

from limpet.contracts.events.v1.fetch_pb2 import (
    FailureKind,
    FetchRequested,
    FetchStarted,
    OrderKind,
    ProxyPolicy,
    ReturnReason,
)
from limpet.contracts.events.v1.page_pb2 import RejectKind
from limpet.contracts.proxy.v1.proxy_service_pb2 import Outcome
from limpet.fetcher import facts, redirect
from limpet.fetcher.again import wait_before
from limpet.fetcher.archive import Archive
from limpet.fetcher.blame import error_of, outcome_of
from limpet.fetcher.clocksync import ClockSync
from limpet.fetcher.cookies import Cookies
from limpet.fetcher.egress import Egress
from limpet.fetcher.facts import Fact, Judgement, Try
from limpet.fetcher.metrics import BODY_BYTES, REDELIVERED, RESPONSE_SECONDS, RETRIED, SETTLED
from limpet.fetcher.orders import LATE, wait_of
from limpet.fetcher.page import Page
from limpet.fetcher.patience import Patience
from limpet.fetcher.proxies import SITE_REFUSES, NoProxy, Proxies
from limpet.fetcher.slots import Slots
from limpet.fetcher.stock import Leased
from limpet.fetcher.trouble import trouble_of
from limpet.fetcher.unchanged import NOT_MODIFIED, Unchanged, condition
from limpet.fetcher.validate import Failure, Overlooked, Rejection, retry_after_seconds, verdict
from limpet.fetcher.web import Web
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
# The names of enums are looked up by Python code at each use, so the hot path has them at hand.
PAGE, ROBOTS = OrderKind.ORDER_KIND_PAGE, OrderKind.ORDER_KIND_ROBOTS
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
    worker_id: str
    patience: Patience = field(default_factory=Patience)
    cookies: Cookies = field(default_factory=Cookies)

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
            if trouble := trouble_of(order, fact, worker_id=self.worker_id):
                await self.bus.record(trouble)
            self._count(order, fact)
            progressed(time.monotonic())

    async def _settle(self, order: FetchRequested) -> Fact:
        if reason := self._hindrance():
            return facts.returned(order, reason)
        leased: Leased | None = None
        if order.proxy_policy in LEASED:
            now, _ = self.clock.now()
            if now > to_seconds(order.start_by_time):
                # A lease is charged to the proxy's hour: none is asked for in vain.
                return facts.returned(order, ReturnReason.RETURN_REASON_LATE)
            found = await self.proxies.lease(order, now=now)
            if not isinstance(found, NoProxy):
                leased = found
            elif order.proxy_policy == ProxyPolicy.PROXY_POLICY_REQUIRED or found.why == SITE_REFUSES:
                reason = ReturnReason.RETURN_REASON_NO_PROXY
                return facts.returned(order, reason, hold_seconds=found.hold_seconds)
        if reason := await self._wait(order):
            if leased is not None:
                self.proxies.give_back(leased)
            return facts.returned(order, reason)
        fact = await self.slots.unless_cut(self._try(order, leased))
        return fact if fact is not None else facts.returned(order, ReturnReason.RETURN_REASON_SHUTDOWN)

    def _hindrance(self) -> ReturnReason.ValueType | None:
        if reason := self.slots.hindrance:
            return reason
        return None if self.clock.fresh else ReturnReason.RETURN_REASON_NO_CLOCK

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

    async def _try(self, order: FetchRequested, leased: Leased | None) -> Fact:
        """One request at most reaches the site; a proxy that does not take it costs a wait and another proxy."""
        tried: set[int] = set()
        while True:
            made, answer = await self._ask(order, leased)
            judged = judge(order, answer, now=made.started + made.response_ms / 1000)
            if isinstance(answer, Failure) and await self.egress.explains(answer.kind):
                if leased is not None:
                    self.proxies.report(leased, Outcome.OUTCOME_UNUSED)
                return facts.returned(order, ReturnReason.RETURN_REASON_NO_NETWORK)
            self._learn(made, order, answer, judged)
            if leased is None:
                break
            self.proxies.report(
                leased,
                outcome_of(judged, kind=order.kind),
                response_ms=made.response_ms,
                error=error_of(judged),
                byte_count=0 if isinstance(answer, Failure) else answer.received_bytes,
            )
            if not isinstance(answer, Failure) or not answer.unsent:
                break
            tried.add(made.proxy_id)
            another = await self._another(order, answer, tried)
            if another is None:
                break
            leased = another
            RETRIED.inc()
        return await self._store(order, made, answer, judged)

    async def _another(self, order: FetchRequested, failure: Failure, tried: set[int]) -> Leased | None:
        """The lease of a proxy that was not tried yet, while the order may still start."""
        now, error = self.clock.now()
        start_by = to_seconds(order.start_by_time)
        wait = wait_before(len(tried) - 1, failure, start_by=start_by, now=now, error=error)
        if wait is None:
            return None
        await self.slots.pause(wait)
        if self._hindrance():
            return None
        now, _ = self.clock.now()
        found = await self.proxies.lease(order, now=now)
        if isinstance(found, NoProxy):
            return None
        if found.grant.proxy_id in tried or await self._wait(order):
            self.proxies.give_back(found)
            return None
        return found

    async def _ask(self, order: FetchRequested, leased: Leased | None) -> tuple[Try, Page | Failure]:
        now, error = self.clock.now()
        left = max(0.001, to_seconds(order.give_up_time) - now - error)
        seconds = self.patience.seconds(order.domain, at_most=left)
        proxy_id = 0 if leased is None else leased.grant.proxy_id
        headers = own_headers(order)
        cookie = self.cookies.header((order.domain, proxy_id), order.url, now=now) if order.kind == PAGE else ""
        begun = time.monotonic()
        progressed(begun, quiet_for=seconds)
        with self.underway.running([FetchStarted(task_id=order.task_id, attempt=order.attempt)]):
            answer = await self.web.get(
                order.url,
                user_agent=order.user_agent,
                seconds=seconds,
                via=leased.via if leased is not None else None,
                cookie=cookie,
                cut_at=ROBOTS_BYTES if order.kind == ROBOTS else 0,
                headers=headers,
                http2=order.http2,
            )
        took = time.monotonic() - begun
        RESPONSE_SECONDS.observe(took)
        self.pulse.latency(took * 1000)
        return Try(started=now, response_ms=round(took * 1000), proxy_id=proxy_id), answer

    def _learn(self, made: Try, order: FetchRequested, answer: Page | Failure, judged: Judgement) -> None:
        """How fast the domain is, and the session that it has with this proxy."""
        if isinstance(answer, Failure):
            if answer.kind == FailureKind.FAILURE_KIND_TIMEOUT:
                self.patience.timed_out(order.domain)
            return
        self.patience.answered(order.domain, made.response_ms / 1000)
        if order.kind != PAGE:
            return
        if isinstance(judged, Rejection) and judged.kind == RejectKind.REJECT_KIND_BLOCKED:
            self.cookies.forget((order.domain, made.proxy_id))
        elif answer.cookies:
            self.cookies.learn((order.domain, made.proxy_id), order.url, answer.cookies, now=made.started)

    async def _store(self, order: FetchRequested, made: Try, answer: Page | Failure, judged: Judgement) -> Fact:
        """The body of a good page and the row of any answer are kept before the fact goes out."""
        if isinstance(answer, Failure):
            return facts.settled(order, made, None, judged)
        good = judged is None or isinstance(judged, Overlooked)
        key = await self.archive.keep(facts.row(order, made, answer, judged), answer.body if good else None)
        if good:
            BODY_BYTES.inc(len(answer.body))
        return facts.settled(order, made, answer, judged, body_key=key)

    def _count(self, order: FetchRequested, fact: Fact) -> None:
        outcome = facts.outcome_of(fact)
        SETTLED_AS[outcome].inc()
        if outcome in ("fetched", "unchanged"):
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
    if answer.status == NOT_MODIFIED and order.HasField("known"):
        return Unchanged()
    if 300 <= answer.status < 400:
        return redirect.follow(
            order.url,
            domain=order.domain,
            status=answer.status,
            location=answer.location,
            anywhere=order.kind == ROBOTS,
        )
    found = verdict(
        status=answer.status,
        content_type=answer.content_type,
        body=answer.body,
        retry_after=retry_after_seconds(answer.retry_after, now=now),
        min_body_bytes=order.min_body_bytes,
        is_page=order.kind == PAGE,
        ignored=frozenset(order.ignored_signatures),
    )
    # Shadow mode overlooks what pages hold, not what sites say outright.
    if order.shadow and isinstance(found, Rejection) and 200 <= answer.status < 300:
        return Overlooked(found)
    return found


def own_headers(order: FetchRequested) -> dict[str, str]:
    """What the domain wants to be sent, where the request still goes there; and whether the page that is known will do."""
    headers = dict(order.headers) if order.headers and redirect.domain_of(order.url) == order.domain else {}
    if order.HasField("known"):
        headers |= condition(order.known)
    return headers
